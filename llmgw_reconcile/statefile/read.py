"""Read a state file, or a file that it names: plain files only, never more than a bound, never waiting for a writer."""

from __future__ import annotations

import os
import stat
import sys

from llmgw_reconcile.errors import Diagnostic, Severity, StateFileError

MAX_BYTES = 64 << 20


def read_state(path: str) -> tuple[bytes, str]:
    """The bytes of a state file, and the absolute directory that relative paths in it start from.

    "-" is standard input, whose paths start from the working directory. Raises StateFileError, naming path and reason.
    """
    try:
        data = _read_standard_input() if path == "-" else read_plain_file(path)
        return data, os.path.dirname(os.path.abspath("-" if path == "-" else path))
    except OSError as error:
        raise StateFileError([_unreadable(path, error.strerror or str(error))]) from None


def read_plain_file(path: str) -> bytes:
    """The bytes of a plain file of 64 MiB at most. Raises OSError, its reason in `strerror`."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO without a writer would be waited for
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(0, f"it is {_kind(mode)}, not a plain file")
        with os.fdopen(fd, "rb", closefd=False) as file:
            return _bounded(file.read(MAX_BYTES + 1))
    finally:
        os.close(fd)


def _read_standard_input() -> bytes:
    if sys.stdin is None:
        raise OSError(0, "standard input is closed")
    return _bounded(sys.stdin.buffer.read(MAX_BYTES + 1))


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise OSError(0, f"it is larger than {MAX_BYTES >> 20} MiB")
    return data


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "a socket"


def _unreadable(path: str, reason: str) -> Diagnostic:
    where = "standard input" if path == "-" else path
    hint = "name a YAML file, or - for standard input"
    return Diagnostic(Severity.ERROR, "state-unreadable", where, f"cannot read the state file: {reason}", hint)
