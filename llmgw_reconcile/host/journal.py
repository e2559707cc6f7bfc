"""Keep a journal as JSON lines in two files of bounded size: whole lines are added, the older half falls away.

Whoever adds a line holds the file's lock, and turns the page when it is full: the file becomes the older one by a
rename. A line that a crash or a full disk tore is closed off by the next one, and is no line to readers.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any

from llmgw_reconcile.errors import NodeError

FILE_LIMIT = 4 << 20  # bytes; two files make the journal
LINE_LIMIT = 32 << 10  # bytes
LOCK_SECONDS = 1.0  # a line takes microseconds: whoever holds the lock longer is suspended
POLL_SECONDS = 0.01
CHUNK = 1 << 20
OLDER_SUFFIX = ".1"


def append_line(path: str, document: Mapping[str, Any]) -> None:
    """Add one line, 0600 whatever the umask. Raises NodeError, and then the journal is as it was or ends torn.

    It is there for others at once; a power loss may take the newest lines.
    """
    line = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    line += b"\n"
    if len(line) > LINE_LIMIT:
        raise NodeError(f"cannot write {path}: the entry is larger than {LINE_LIMIT} bytes")
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while not _append(path, line, deadline):
            pass
    except OSError as error:
        raise NodeError(f"cannot write {path}: {error.strerror or error}") from None


def _append(path: str, line: bytes, deadline: float) -> bool:
    """Whether the line was added; if not, the path names another file now."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        _check_ours(fd)
        _lock(fd, deadline)
        size = os.fstat(fd).st_size
        if not _is_at(path, fd):
            return False
        if size + len(line) > FILE_LIMIT:
            os.replace(path, path + OLDER_SUFFIX)
            return False
        is_torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        data = (b"\n" if is_torn else b"") + line
        if os.write(fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)
    return True


def _check_ours(fd: int) -> None:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid != os.geteuid():
        raise OSError(0, "it is not a plain file of ours with one name")
    os.fchmod(fd, 0o600)


def _lock(fd: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise OSError(0, f"another llmgw has locked it for more than {LOCK_SECONDS:g} s") from None
            time.sleep(POLL_SECONDS)
        else:
            return


def _is_at(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except FileNotFoundError:
        return False


class JournalReader:
    """A journal from its beginning, and on as it grows."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._has_begun = False
        self._fd: int | None = None
        self._at = 0
        self._rest = b""

    def more(self) -> list[dict[str, Any]]:
        """The entries since the last call, at first all that are kept. Raises NodeError when a file cannot be read."""
        try:
            lines = self._new_lines() if self._has_begun else self._all_lines()
            self._has_begun = True
            if self._fd is not None and not _is_at(self._path, self._fd):  # the page was turned
                self.close()
                lines += self._new_lines()
        except OSError as error:
            raise NodeError(f"cannot read {self._path}: {error.strerror or error}") from None
        return list(_entries(lines))

    def close(self) -> None:
        """Read no more of this file."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._at, self._rest = None, 0, b""

    def _all_lines(self) -> list[bytes]:
        """The newer file is opened first: should the page be turned now, the older one is the same, and read once."""
        self._fd = _open(self._path)
        older = _open(self._path + OLDER_SUFFIX)
        if older is None:
            return self._new_lines()
        try:
            is_same = self._fd is not None and os.path.samestat(os.fstat(self._fd), os.fstat(older))
            lines = [] if is_same else _read_on(older, 0).split(b"\n")
        finally:
            os.close(older)
        return lines + self._new_lines()

    def _new_lines(self) -> list[bytes]:
        if self._fd is None:
            self._fd = _open(self._path)
        if self._fd is None:
            return []
        data = _read_on(self._fd, self._at)
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


def _open(path: str) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "it is not a plain file")
    return fd


def _read_on(fd: int, at: int) -> bytes:
    """From `at` to the end, up to the size that a file of a journal may have."""
    data = b""
    while len(data) < FILE_LIMIT and (piece := os.pread(fd, CHUNK, at + len(data))):
        data += piece
    return data


def _entries(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry
