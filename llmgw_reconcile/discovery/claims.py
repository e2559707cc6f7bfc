"""Find the supervisors of every llmgw on the node by their command lines: the cards that engines were given.

A supervisor names its engine and the UUIDs of its GPUs from its first moment, long before the engine holds memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

READ_LIMIT = 4096  # bytes of a command line
TITLE = b"llmgw: supervisor "  # then engine and, after a blank, UUIDs: one word to the kernel, padded with NULs


class Claim(NamedTuple):
    """One supervisor: its user, its engine, and the GPUs (UUIDs) that the engine was given."""

    pid: int
    uid: int
    engine: str
    gpus: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What people see of it."""
        return f"{TITLE.decode()}{self.engine}"


def read_claims(proc_root: str = "/proc") -> tuple[Claim, ...]:
    """Every supervisor that /proc shows, whoever's it is, by pid."""
    try:
        pids = [int(name) for name in os.listdir(proc_root) if name.isdecimal()]
    except OSError:
        return ()
    return tuple(_claims(proc_root, sorted(pids)))


def _claims(proc_root: str, pids: Iterable[int]) -> Iterator[Claim]:
    for pid in pids:
        folder = f"{proc_root}/{pid}"
        line = _command_line(f"{folder}/cmdline")
        if line.startswith(TITLE) and (uid := _owner(folder)) is not None:
            engine, _, uuids = line[len(TITLE) :].decode("utf-8", "replace").partition(" ")
            if engine.isprintable() and engine.count("@") == 1:
                yield Claim(pid, uid, engine, tuple(filter(None, uuids.split(","))))


def _command_line(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, READ_LIMIT).rstrip(b"\0")
    except OSError:
        return b""
    finally:
        os.close(fd)


def _owner(folder: str) -> int | None:
    try:
        return os.stat(folder).st_uid
    except OSError:
        return None
