"""Turn the answers of nvidia-smi into cards and compute processes; total over any text.

A cell that says "this card has no such thing" is no fault; any other cell that is no value is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from llmgw_reconcile.discovery.nvidia_csv import Row, Table, parse_table
from llmgw_reconcile.discovery.nvidia_faults import INFOROM_CORRUPTED, failed, part_failed, remark, unreadable
from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.host.tool import ToolResult

PROCESS_FIELDS = ("gpu_uuid", "pid", "used_gpu_memory", "process_name")  # the name last: it may hold commas

SLOWDOWNS = ("hw_thermal_slowdown", "sw_thermal_slowdown", "hw_slowdown")  # of clocks_event_reasons

UNSUPPORTED = frozenset({"", "N/A", "Not Supported", "Not Found", "Requested functionality has been deprecated"})
PCI_ADDRESS = r"(?<![0-9A-Fa-f:])([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])"

Value = TypeVar("Value")


class Card(NamedTuple):
    """What the driver says of one card. A lost card has neither index nor uuid; unsupported or unread is None."""

    index: int | None = None  # type: ignore[assignment]  # shadows tuple.index
    uuid: str | None = None
    name: str | None = None
    pci_bus_id: str | None = None
    memory_total_mb: int | None = None
    memory_used_mb: int | None = None
    driver_version: str | None = None
    compute_capability: str | None = None
    temperature_c: int | None = None
    ecc_errors: int | None = None
    mig_enabled: bool | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    retirement_pending: bool | None = None
    display: bool | None = None
    persistence_mode: bool | None = None
    slowdowns: tuple[str, ...] = ()  # those that are in force
    faults: tuple[tuple[str, str], ...] = ()  # (field, what stands there instead of a value)
    sentences: tuple[str, ...] = ()  # what the tool says of this card besides its row


class GpuProcess(NamedTuple):
    """A compute process on a card; `memory_mb` and `name` are None when the driver does not tell."""

    uuid: str
    pid: int
    memory_mb: int | None
    name: str | None


def read_gpus(result: ToolResult, fields: Sequence[str]) -> tuple[tuple[Card, ...], tuple[Diagnostic, ...]]:
    """The cards by index, lost ones behind them, and what was wrong with the answer as a whole.

    Good rows survive whatever stands between them. An ERROR among the problems means that cards may be missing.
    """
    table = parse_table(result.stdout, fields)
    said = (*table.sentences, *filter(str.strip, result.stderr.splitlines()))
    cards = _cards(table.rows, said)
    return cards, tuple(_judge(result, table, cards, said))


def _judge(result: ToolResult, table: Table, cards: Sequence[Card], said: Sequence[str]) -> Iterable[Diagnostic]:
    is_explained = result.returncode == 0 or any(card.faults or card.sentences for card in cards)
    if result.returncode is None or not (table.rows or result.returncode == 0):
        yield failed(result)
    elif table.broken or not table.rows:
        yield unreadable(result, table.broken)
    elif not is_explained:
        yield failed(result, Severity.WARNING if result.returncode == INFOROM_CORRUPTED else Severity.ERROR)
    else:
        told = {sentence for card in cards for sentence in card.sentences}
        yield from (remark(sentence) for sentence in said if sentence not in told)


def _cards(rows: Iterable[Row], said: Sequence[str]) -> tuple[Card, ...]:
    """Rows as cards, joined with the sentences that name them; sentences with another PCI address are lost cards."""
    by_address: dict[tuple[int, ...], list[str]] = {}
    for sentence in said:
        if (address := _address(sentence)) is not None:
            by_address.setdefault(address, []).append(sentence)
    cards: list[Card] = []
    nameless: list[Card] = []
    for card in map(_card, rows):
        sentences = by_address.pop(_address(card.pci_bus_id or "") or (), [])
        sentences += [text for text in said if card.uuid and card.uuid in text and text not in sentences]
        has_name = card.index is not None or card.uuid or card.pci_bus_id
        (cards if has_name else nameless).append(card._replace(sentences=tuple(sentences)))
    cards.sort(key=lambda card: (card.index is None, card.index or 0))
    lost = [_lost_card(address, sentences) for address, sentences in sorted(by_address.items())]
    # A lost card may also get a row without a single value: it is one card, told twice.
    return (*cards, *lost, *nameless[len(lost) :])


def _lost_card(address: tuple[int, ...], sentences: Sequence[str]) -> Card:
    domain, bus, device, function = address
    return Card(pci_bus_id=f"{domain:04x}:{bus:02x}:{device:02x}.{function}", sentences=tuple(sentences))


def _address(text: str) -> tuple[int, ...] | None:
    """The PCI address in a text as numbers: the tool writes domains with four digits and with eight.

    >>> _address("GPU 0000:0B:00.0: Unknown Error") == _address("00000000:0b:00.0") == (0, 11, 0, 0)
    True
    """
    match = re.search(PCI_ADDRESS, text)
    return tuple(int(part, 16) for part in match.groups()) if match else None


def _card(row: Row) -> Card:
    faults: list[tuple[str, str]] = []

    def take(field: str, read: Callable[[str], Value | None]) -> Value | None:
        cell = row.get(field, "")
        if cell.strip("[]") in UNSUPPORTED:
            return None
        value = read(cell)
        if value is None:
            faults.append((field, one_line(cell, 60)))
        return value

    card = Card(
        index=take("index", _number),
        uuid=take("uuid", _text),
        name=take("name", _text),
        pci_bus_id=take("pci.bus_id", _text),
        memory_total_mb=take("memory.total", _number),
        memory_used_mb=take("memory.used", _number),
        driver_version=take("driver_version", _text),
        compute_capability=take("compute_cap", _capability),
        temperature_c=take("temperature.gpu", _number),
        ecc_errors=take("ecc.errors.uncorrected.volatile.total", _number),
        mig_enabled=take("mig.mode.current", _switch),
        remapping_pending=take("remapped_rows.pending", _switch),
        remapping_failed=take("remapped_rows.failure", _switch),
        retirement_pending=take("retired_pages.pending", _switch),
        display=take("display_active", _switch),
        persistence_mode=take("persistence_mode", _switch),
        slowdowns=tuple(name for name in SLOWDOWNS if row.get(f"clocks_event_reasons.{name}") == "Active"),
    )
    return card._replace(faults=tuple(faults))


def _text(cell: str) -> str | None:
    """A cell in brackets is a remark of the tool; so are these two words, which it prints without."""
    return None if cell.startswith("[") or cell in ("ERR!", "Unknown Error") else one_line(cell, 100)


def _number(cell: str) -> int | None:
    """`81559` and `81559 MiB`, in the unit that the header promises."""
    match = re.fullmatch(r"([0-9]{1,12})( MiB| C)?", cell)
    return int(match[1]) if match else None


def _capability(cell: str) -> str | None:
    return cell if re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,3}", cell) else None


def _switch(cell: str) -> bool | None:
    return {"Enabled": True, "Disabled": False, "Yes": True, "No": False, "1": True, "0": False}.get(cell)


def read_processes(result: ToolResult) -> tuple[tuple[GpuProcess, ...] | None, tuple[Diagnostic, ...]]:
    """Compute processes in the order of card and pid; None, with a warning, when they could not be read."""
    table = parse_table(result.stdout, PROCESS_FIELDS, free_text="process_name")
    if not table.header or table.broken or result.returncode is None:
        return None, (part_failed(result, "nvidia-smi-processes", "the processes on the GPUs"),)
    found: dict[tuple[str, int], GpuProcess] = {}
    for process in filter(None, map(_process, table.rows)):
        other = found.get((process.uuid, process.pid))  # on a MIG card a row for each slice that it uses
        found[process.uuid, process.pid] = process if other is None else _together(process, other)
    return tuple(found[key] for key in sorted(found)), ()


def _process(row: Row) -> GpuProcess | None:
    """None for a row without card or pid, which is what a driver without this query prints."""
    uuid, pid = row["uuid"], _number(row["pid"])
    if not pid or _text(uuid) is None:
        return None
    return GpuProcess(uuid, pid, _number(row["used_gpu_memory"]), _text(row["process_name"]))


def _together(one: GpuProcess, other: GpuProcess) -> GpuProcess:
    known = one.memory_mb is not None and other.memory_mb is not None
    return one._replace(memory_mb=(one.memory_mb or 0) + (other.memory_mb or 0) if known else None)
