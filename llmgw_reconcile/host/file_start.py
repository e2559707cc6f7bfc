"""Read the beginning of a file that others wrote: plain files only, up to a bound, never waiting for a writer."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def open_plain(path: str) -> Iterator[tuple[BinaryIO, int]]:
    """The file, opened for reading, and its size in bytes. Raises OSError, its reason in `strerror`."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO without a writer would be waited for
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "not a plain file")
        with os.fdopen(fd, "rb", closefd=False) as file:
            yield file, found.st_size
    finally:
        os.close(fd)


def read_start(path: str, limit: int) -> bytes:
    """Its first `limit` bytes, or all that there are. Raises OSError."""
    with open_plain(path) as (file, _):
        return file.read(limit)
