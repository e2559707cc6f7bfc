"""The two system calls that Python's standard library lacks: prctl and fallocate, through the C library.

`_ctypes` is used without the `ctypes` package: the package costs the resident supervisor half a MiB.
"""

from __future__ import annotations

import os

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
FALLOC_FL_COLLAPSE_RANGE = 0x08  # linux/falloc.h


def become_subreaper() -> bool:
    """Let orphaned descendants become children of this process instead of init's; False where that fails."""
    return _call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def collapse_range(fd: int, offset: int, length: int) -> bool:
    """Take a range out of a file without copying the rest (fallocate(2)).

    Offset and length are multiples of the file system's block size, below 2 GiB (they travel as C ints). False where
    the file system cannot do it.
    """
    return _call("fallocate", fd, FALLOC_FL_COLLAPSE_RANGE, offset, length) == 0


def _call(name: str, *arguments: int) -> int:
    try:
        import _ctypes

        function = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), name)  # type: ignore[arg-type]  # None: this process
        result: int = _ctypes.call_function(function, arguments)
    except (ImportError, OSError, AttributeError):
        return -1
    return result
