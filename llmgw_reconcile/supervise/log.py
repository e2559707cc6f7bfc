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
PEEK = 4096  # bytes in which the newest line is looked for
CUT = "[llmgw: the log was cut here to keep it bounded; what stood there was not shown]"


class LogReader:
    """A log from its end, and on: across a restart the old file is read out before the new one."""

    def __init__(self, path: str, secrets: Sequence[str]) -> None:
        self._path, self._secrets = path, tuple(secrets)
        self._fd: int | None = None
        self._at = 0
        self._rest = b""

    def tail(self, count: int | None) -> list[str] | None:
        """The last `count` lines, or all of the bounded end; None when there is no log. Raises NodeError."""
        self._fd = open_log(self._path)
        if self._fd is None:
            return None
        self._at = os.fstat(self._fd).st_size
        lines = self._lines(_newest(self._fd, self._at, count))
        return lines if count is None else lines[len(lines) - min(count, len(lines)) :]

    def more(self) -> list[str]:
        """Lines that were written since, up to a bound; empty when there are none now. Raises NodeError."""
        if lines := self._read_on():
            return lines
        fd = open_log(self._path)
        if fd is None:
            return []
        if self._fd is not None and os.path.sameopenfile(self._fd, fd):
            os.close(fd)
            return []
        lines = self._read_on(at_end=True)  # what its writer wrote last, whole or not
        self.close()
        self._fd, self._at = fd, 0
        return lines or self._read_on()

    def close(self) -> None:
        """Read no more."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read_on(self, *, at_end: bool = False) -> list[str]:
        if self._fd is None:
            return []
        size = os.fstat(self._fd).st_size
        if size < self._at:
            self._at, self._rest = size, b""
            return [CUT]
        data = os.pread(self._fd, CHUNK, self._at)
        self._at += len(data)
        data = self._rest + data
        # Half a line waits for its end, but a progress bar has none: that is shown as it stands.
        end = len(data) if at_end or len(data) > 2 * CHUNK else data.rfind(b"\n") + 1
        whole, self._rest = data[:end].removesuffix(b"\n"), data[end:]
        return self._lines(whole) if end else []

    def _lines(self, data: bytes) -> list[str]:
        text = mask(data.decode("utf-8", "replace"), self._secrets)
        return (
            [neutralise(_visible_part(line)[: LINE_LIMIT + 1], LINE_LIMIT) for line in text.split("\n")] if text else []
        )


def newest_line(path: str, secrets: Sequence[str]) -> str:
    """The last line of a log that is not blank; empty when there is none to be seen."""
    try:
        fd = open_log(path)
    except NodeError:
        return ""
    if fd is None:
        return ""
    with os.fdopen(fd, "rb"):
        data = os.pread(fd, PEEK, max(0, os.fstat(fd).st_size - PEEK))
    text = mask(data.decode("utf-8", "replace"), secrets).replace("\r", "\n")
    return neutralise(next((line.strip() for line in reversed(text.split("\n")) if line.strip()), ""))


def open_log(path: str) -> int | None:
    """A descriptor of the log; None when there is none. Raises NodeError for a link and for what is no plain file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NodeError(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NodeError(f"cannot read {path}: it is not a plain file")
    return fd


def _visible_part(line: str) -> str:
    """What a terminal would leave standing of a line that a progress bar wrote over itself."""
    return line.rstrip("\r").rpartition("\r")[2]


def _newest(fd: int, size: int, count: int | None) -> bytes:
    """The end of the file that holds `count` whole lines, read backwards in chunks."""
    chunks: list[bytes] = []
    at, newlines = size, 0
    while at > 0 and size - at < TAIL_LIMIT and (count is None or newlines <= count):
        step = min(CHUNK, at)
        at -= step
        chunks.append(os.pread(fd, step, at))
        newlines += chunks[-1].count(b"\n")
    data = b"".join(reversed(chunks))
    if at > 0 and newlines:  # the first line is not whole, and might begin in the middle of a secret
        data = data[data.find(b"\n") + 1 :]
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
