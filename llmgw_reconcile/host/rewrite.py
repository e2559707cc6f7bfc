"""Put new text in place of a person's file, whole or not at all: its mode and owner stay, no link is followed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.host.files import TEMPORARY_SUFFIX, sync_directory


def check_rewritable(path: str) -> None:
    """Refuse what `rewrite` would not replace. Raises RefusedError."""
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise RefusedError(f"cannot rewrite {path}: {error.strerror}") from None
    if stat.S_ISLNK(mode):
        target = os.path.realpath(path)
        raise RefusedError(f"cannot rewrite {path}: it is a symbolic link; name the file behind it, {target}")
    if not stat.S_ISREG(mode):
        raise RefusedError(f"cannot rewrite {path}: it is not a plain file")


def rewrite(path: str, data: bytes) -> None:
    """Replace the content of a plain file atomically. Raises RefusedError, and then the file is as it was."""
    check_rewritable(path)
    try:
        _put(path, data, os.lstat(path))
    except OSError as error:
        raise RefusedError(f"cannot rewrite {path}: {error.strerror}") from None


def write_whole(path: str, data: bytes) -> None:
    """The same for a file that may not be there yet: a new one has the usual mode, and is never seen half-written."""
    if os.path.lexists(path):
        rewrite(path, data)
        return
    try:
        _put(path, data, None)
    except OSError as error:
        raise RefusedError(f"cannot write {path}: {error.strerror}") from None


def _put(path: str, data: bytes, like: os.stat_result | None) -> None:
    temporary = f"{path}.{os.getpid()}{TEMPORARY_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o666 if like is None else 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            if like is not None:
                with suppress(PermissionError):  # only root gives files away; others keep their own
                    os.fchown(fd, like.st_uid, like.st_gid)
                os.fchmod(fd, stat.S_IMODE(like.st_mode))
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    sync_directory(os.path.dirname(os.path.abspath(path)))


def existing_file(path: str) -> RefusedError:
    """The refusal to write over a file."""
    return RefusedError(f"cannot write {path}: it exists already; name another file, or move it away")


def write_new(path: str, data: bytes) -> None:
    """Write a file that is not there yet, with the usual mode of new files. Raises RefusedError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except FileExistsError:
        raise existing_file(path) from None
    except OSError as error:
        raise RefusedError(f"cannot write {path}: {error.strerror}") from None
