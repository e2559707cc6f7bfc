"""A disk that is small enough to be full."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BYTES = 256 << 10
MNT_DETACH = 2


class Disk(type(Path())):  # type: ignore[misc]
    """The folder that it is mounted on."""

    def fill(self) -> None:
        """Leave no room for another byte."""
        with open(self / "ballast", "wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                pass

    def clear(self) -> None:
        """Make room again."""
        (self / "ballast").unlink()


@contextmanager
def full_disk() -> Iterator[Disk]:
    """A small tmpfs; the test is skipped where it may not be mounted."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tempfile.mkdtemp(prefix="lg-disk-")
    options = f"size={BYTES},mode=0700".encode()
    if libc.mount(b"llmgw-test", folder.encode(), b"tmpfs", 0, options):
        os.rmdir(folder)
        pytest.skip(f"a tmpfs may not be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield Disk(folder)
    finally:
        libc.umount2(folder.encode(), MNT_DETACH)
        os.rmdir(folder)
