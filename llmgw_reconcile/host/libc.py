"""The system calls that Python's standard library lacks: prctl, fallocate, and madvise for mappings of the loader.

`_ctypes` is used without the `ctypes` package: the package costs the resident supervisor half a MiB.
"""

from __future__ import annotations

import os

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
FALLOC_FL_COLLAPSE_RANGE = 0x08  # linux/falloc.h
MADV_DONTNEED = 4


def become_subreaper() -> bool:
    """Let orphaned descendants become children of this process instead of init's; False where that fails."""
    return _call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def collapse_range(fd: int, offset: int, length: int) -> bool:
    """Take a range out of a file without copying the rest (fallocate(2)).

    Offset and length are multiples of the file system's block size. False where the file system cannot do it.
    """
    return _call("fallocate", fd, FALLOC_FL_COLLAPSE_RANGE, offset, length) == 0


def release_code() -> None:
    """Give back memory of program files that a process at rest has no use for: code, and tables of the loader's.

    They are never written to, so that what is needed again comes back from the page cache; the kernel itself takes
    them when memory is short. For a process that is about to sleep for long.
    """
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
            mappings = [line.split(maxsplit=5) for line in file]
    except OSError:
        return
    for span, access, offset, _, inode, *_ in mappings:
        # Read-only mappings further into a file may be data that was relocated: those must stay.
        if inode != "0" and (access == "r-xp" or (access == "r--p" and int(offset, 16) == 0)):
            start, end = (int(address, 16) for address in span.split("-"))
            _call("madvise", start, end - start, MADV_DONTNEED)


def _call(name: str, *arguments: int) -> int:
    """Call a function of the C library with integers, each as wide as a pointer."""
    try:
        import _ctypes

        class Word(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001 - what ctypes itself builds upon
            _type_ = "P"

        function = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), name)  # type: ignore[arg-type]  # None: this process
        result: int = _ctypes.call_function(function, tuple(map(Word, arguments)))
    except (ImportError, OSError, AttributeError):
        return -1
    return result
