"""One writer at a time: locks that the kernel drops with their holder, and that say who that is.

flock(2) on a file that is opened close-on-exec: no engine inherits it, and a left-over file holds nobody up.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time

from llmgw_reconcile.errors import BusyError, NodeError

POLL_SECONDS = 0.05


class Lock:
    """A held lock; close it, or end, to let go."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Let go; twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def take_lock(path: str, *, purpose: str, wait: float = 0.0) -> Lock:
    """Take the lock, waiting at most `wait` seconds.

    Raises BusyError naming the holder, and NodeError when the file cannot be opened.
    """
    fd = open_lock(path)
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() >= deadline:
                holder = _holder(fd)
                os.close(fd)
                raise BusyError(f"busy: {purpose} must wait for {holder}") from None
            time.sleep(POLL_SECONDS)
    _sign(fd, purpose)
    return Lock(fd)


def _sign(fd: int, purpose: str) -> None:
    """Say in the file who holds it; unsigned on a full disk, which must not keep anybody from stopping an engine."""
    note = {"pid": os.getpid(), "user": _user(), "purpose": purpose, "since": time.strftime("%FT%TZ", time.gmtime())}
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(note).encode(), 0)
    except OSError:
        return


def open_lock(path: str) -> int:
    """A descriptor to lock, of a plain file that is written to nowhere else. Raises NodeError."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NodeError(f"cannot open the lock {path}: {error.strerror}") from None
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(fd)
        raise NodeError(f"cannot open the lock {path}: it is not a plain file with one name")
    return fd


def _holder(fd: int) -> str:
    try:
        note = json.loads(os.pread(fd, 4096, 0))
        return f"{note['purpose']} of {note['user']} (pid {note['pid']}, since {note['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another llmgw that just started"


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"
