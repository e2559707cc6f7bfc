"""Read an engine's log for people: bounded, from its end and on as it grows, secrets masked and escapes harmless."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from llmgw_reconcile.discovery.records import read_records
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.safe_text import mask, neutralise
from llmgw_reconcile.supervise.resolve import resolve_launch

CHUNK = 256 << 10
TAIL_LIMIT = 8 << 20  # bytes that `--tail` reads at most
LINE_LIMIT = 8192  # characters of one line that are shown


class LogReader:
    """A log from its end, and on: a new file under the same name is followed from its start."""

    def __init__(self, path: str, secrets: Sequence[str]) -> None:
        self._path, self._secrets = path, tuple(secrets)
        self._inode = 0
        self._at = 0
        self._rest = b""

    def tail(self, count: int | None) -> list[str] | None:
        """The last `count` lines, or all of the bounded end; None when there is no log."""
        fd = self._open()
        if fd is None:
            return None
        with os.fdopen(fd, "rb"):
            found = os.fstat(fd)
            data = _newest(fd, found.st_size, count)
        self._inode, self._at = found.st_ino, found.st_size
        lines = self._lines(data)
        return lines if count is None else lines[len(lines) - min(count, len(lines)) :]

    def more(self) -> list[str]:
        """Whole lines that were written since. A log that was cut goes on from what is left of it."""
        fd = self._open()
        if fd is None:
            return []
        with os.fdopen(fd, "rb"):
            found = os.fstat(fd)
            if found.st_ino != self._inode or found.st_size < self._at:
                self._at = 0 if found.st_ino != self._inode else found.st_size
                self._inode, self._rest = found.st_ino, b""
            data = self._rest + os.pread(fd, CHUNK, self._at)
            self._at += len(data) - len(self._rest)
        whole, gap, self._rest = data.rpartition(b"\n")
        if len(self._rest) > CHUNK:  # a progress bar without an end: shown as it stands
            whole, gap, self._rest = data, b"\n", b""
        return self._lines(whole) if gap else []

    def _open(self) -> int | None:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise NodeError(f"cannot read {self._path}: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NodeError(f"cannot read {self._path}: it is not a plain file")
        return fd

    def _lines(self, data: bytes) -> list[str]:
        text = mask(data.decode("utf-8", "replace"), self._secrets)
        return [neutralise(_visible_part(line), LINE_LIMIT) for line in text.split("\n")] if text else []


def _visible_part(line: str) -> str:
    """What a terminal would leave standing of a line that a progress bar wrote over itself."""
    return line.rstrip("\r").rpartition("\r")[2]


def _newest(fd: int, size: int, count: int | None) -> bytes:
    """The end of the file that holds `count` lines, read backwards in chunks."""
    at, data = size, b""
    while at > 0 and len(data) < TAIL_LIMIT:
        step = min(CHUNK, at)
        at -= step
        data = os.pread(fd, step, at) + data
        if count is not None and data.count(b"\n") > count:
            break
    return data.removesuffix(b"\n")


def secrets_of(engine: str, folder: EngineDir, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The secret values that an engine may have written to its log, as far as they can be looked up here."""
    records = read_records(engine, folder)
    if records.launch is None:
        return ()
    found: list[str] = []
    document = records.launch["document"]
    for item in [*document["argv"], *document["env"].values()]:
        try:
            found += resolve_launch({"argv": [item], "env": {}}, folder, environ).secrets
        except NodeError:
            continue
    return tuple(found)
