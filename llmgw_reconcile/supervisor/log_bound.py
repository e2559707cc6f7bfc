"""Keep an engine's log bounded while the engine writes to it: the head of the run and the newest rest stay.

The engine appends to the file itself, so that nobody stands between it and its log. When the file has grown, the
middle is taken out: by collapsing the range where the file system can (ext4, xfs), else by copying the newest part to
the front, which may lose what is written in that instant and says so in the log.
The wake-up is a directory notification (fcntl(2), F_NOTIFY), one-shot: a quiet engine causes none.
"""

from __future__ import annotations

import fcntl
import os
import stat

from llmgw_reconcile.host.libc import collapse_range

LIMIT = 32 << 20  # one run's log; the previous run's has the same bound, 64 MiB together
HEAD = 1 << 20
KEEP = 16 << 20  # newest bytes after a cut
COPY_KEEP = 8 << 20
FASTEST_WRITER = 1 << 30  # bytes a second
SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 2.0


class LogBound:
    """Watches one log file; `look()` when told that something was written, and again after the pause it returns."""

    def __init__(self, path: str, *, limit: int = LIMIT, head: int = HEAD, keep: int = KEEP) -> None:
        self._limit, self._head, self._keep = limit, head, keep
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            os.close(self._fd)
            raise OSError(f"{path} is not a plain file")
        self._folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def size(self) -> int:
        """Bytes in the log now."""
        return os.fstat(self._fd).st_size

    def arm(self) -> None:
        """Ask for one SIGIO at the next write."""
        try:
            fcntl.fcntl(self._folder, fcntl.F_NOTIFY, fcntl.DN_MODIFY)
        except OSError:
            return  # a file system without notifications: looked at whenever something else wakes us

    def look(self) -> float:
        """Cut when it is too long; seconds after which to look again, while the engine goes on writing."""
        size = self.size
        if size > self._limit:
            self._cut(size)
            size = self.size
        headroom = max(0, self._limit - size)
        return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, headroom / FASTEST_WRITER))

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)
        os.close(self._folder)

    def tail(self, count: int) -> bytes:
        """The newest bytes."""
        size = self.size
        return os.pread(self._fd, count, max(0, size - count))

    def _cut(self, size: int) -> None:
        block = max(4096, os.fstat(self._fd).st_blksize)
        start = self._head // block * block
        length = (size - self._keep) // block * block - start
        if length <= 0 or collapse_range(self._fd, start, length):
            return
        newest = os.pread(self._fd, COPY_KEEP, max(0, size - COPY_KEEP))
        os.ftruncate(self._fd, self._head)
        os.write(self._fd, b"\n[llmgw: the log was cut here; lines written in that instant may be lost]\n" + newest)
