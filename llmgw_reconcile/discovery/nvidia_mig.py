"""Turn `nvidia-smi -L` and the tool's table into the MIG devices of each card; total over any text.

The list gives the UUIDs, and only the table tells memory, and which process is on which device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

CARD_LINE = re.compile(r"GPU [0-9]{1,4}: .*\(UUID: (GPU-[^)\s]{1,60})\)\s*")
# MIG-<uuid>; MIG-GPU-<uuid>/<instance>/<instance> before driver 470.
SLICE_LINE = re.compile(r"\s+MIG (\S{1,40})\s+Device\s+([0-9]{1,3}): \(UUID: (MIG-[^)\s]{1,80})\)\s*")
LONGEST_LINE = 400
_COUNT = r"([0-9]{1,6})"
_INSTANCES = rf"\|\s+{_COUNT}\s+{_COUNT}\s+{_COUNT}\s+{_COUNT}\s+"  # card, GPU instance, compute instance, device | pid
MEMORY_ROW = re.compile(rf"{_INSTANCES}\|\s+([0-9]{{1,9}})MiB\s*/\s*([0-9]{{1,9}})MiB\s+\|.*")
PROCESS_ROW = re.compile(rf"{_INSTANCES}[A-Z][A-Z+]*\s+.*\s([0-9]{{1,9}}MiB|N/A)\s+\|")


class MigDevice(NamedTuple):
    """One device; memory is the driver's figure, and None where the table lacks it."""

    card: str  # UUID
    uuid: str
    profile: str  # "3g.40gb"; "1c.3g.40gb" for a part of one, which shares its memory with the other parts
    memory_mb: int | None = None
    memory_used_mb: int | None = None
    pids: tuple[tuple[int, int | None], ...] = ()  # with MiB
    instance: str | None = None  # devices of one card with the same GPU instance share their memory


Slices = tuple[MigDevice, ...]


class Figures(NamedTuple):
    """What the table tells of one device."""

    used_mb: int
    total_mb: int
    instances: tuple[str, str]  # GPU instance and compute instance: unlike the device's number, part of a process row


def read_slices(listing: str, table: str) -> Slices:
    """The MIG devices in the order of the list."""
    figures = {(match[1], match[4]): _figures(match) for match in map(MEMORY_ROW.fullmatch, _lines(table)) if match}
    processes = _processes(table)
    return tuple(_devices(listing, figures, processes))


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if len(line) <= LONGEST_LINE]


def _figures(match: re.Match[str]) -> Figures:
    return Figures(int(match[5]), int(match[6]), (match[2], match[3]))


def _processes(table: str) -> Mapping[tuple[str, str, str], tuple[tuple[int, int | None], ...]]:
    found: dict[tuple[str, str, str], tuple[tuple[int, int | None], ...]] = {}
    for match in filter(None, map(PROCESS_ROW.fullmatch, _lines(table))):
        memory = int(match[5].removesuffix("MiB")) if match[5] != "N/A" else None
        where = (match[1], match[2], match[3])
        found[where] = (*found.get(where, ()), (int(match[4]), memory))
    return found


def _devices(
    listing: str,
    figures: Mapping[tuple[str, str], Figures],
    processes: Mapping[tuple[str, str, str], tuple[tuple[int, int | None], ...]],
) -> Iterator[MigDevice]:
    card = index = ""
    for line in _lines(listing):
        if match := CARD_LINE.fullmatch(line):
            card, index = match[1], line.split()[1].rstrip(":")
        elif card and (match := SLICE_LINE.fullmatch(line)):
            profile, number, uuid = match.groups()
            known = figures.get((index, number))
            yield MigDevice(
                card,
                uuid,
                profile,
                known and known.total_mb,
                known and known.used_mb,
                processes.get((index, *known.instances), ()) if known else (),
                known and known.instances[0],
            )
