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
LARGEST_CUT = 1 << 30  # in one call
FASTEST_WRITER = 1 << 30  # bytes a second
SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 2.0
CUT_HERE = b"\n[llmgw: the log was cut here; lines written in that instant may be lost]\n"


class LogBound:
    """Watches one log file; `look()` when told that something was written, and again after the pause it returns."""

    def __init__(self, path: str, *, fresh: bool, limit: int = LIMIT, head: int = HEAD, keep: int = KEEP) -> None:
        """Opens the log; a `fresh` one must not be there yet. Raises OSError, also for what is no plain file."""
        self._limit, self._head, self._keep = limit, head, keep
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._fd = os.open(path, flags | (os.O_EXCL if fresh else 0), 0o600)
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            os.close(self._fd)
            raise OSError(f"{path} is not a plain file with one name")
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
        """The newest lines, so many bytes of them; a line of which only the end fits is left out, if others are there.

        Half a line may be half a secret, which nothing would recognise.
        """
        size = self.size
        data = os.pread(self._fd, count, max(0, size - count))
        if size <= count:
            return data
        return data.partition(b"\n")[2] or data.partition(b"\r")[2] or data

    def since(self, offset: int, count: int) -> bytes:
        """What was written behind an offset, the newest `count` bytes of it; all that is new when the log was cut."""
        size = self.size
        return os.pread(self._fd, count, max(0, size - count, offset if offset <= size else 0))

    def _cut(self, size: int) -> None:
        try:
            if not self._collapse(size):
                self._copy(size)
        except OSError:
            return  # a full disk, for one: tried again at the next look

    def _collapse(self, size: int) -> bool:
        block = max(4096, os.fstat(self._fd).st_blksize)
        start = self._head // block * block
        left = (size - self._keep) // block * block - start
        while left > 0:
            step = min(left, LARGEST_CUT)
            if not collapse_range(self._fd, start, step):
                return False
            left -= step
        return True

    def _copy(self, size: int) -> None:
        """What the engine writes between the reading and the truncation is lost: the reading is kept short for that."""
        keep = min(COPY_KEEP, self._keep)
        newest = os.pread(self._fd, keep, max(self._head, size - keep))
        os.ftruncate(self._fd, self._head)
        for data in (CUT_HERE, newest.partition(b"\n")[2] or newest):
            while data:
                data = data[os.write(self._fd, data) :]
