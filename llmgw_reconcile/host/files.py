"""Keep records on disk so that each is old or new, never half: private, atomic, and never through a link.

Directories are 0700, files 0600, whatever the umask. A directory that another user owns or may write to is refused
before anything in it is believed, since a record in it could name a victim.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llmgw_reconcile.errors import NodeError

RECORD_LIMIT = 8 << 20
TEMPORARY_SUFFIX = ".tmp"


def private_directory(path: str) -> None:
    """Make the directory (and its parents) when absent, and refuse it unless it is ours alone. Raises NodeError."""
    with _explained("make the directory", path):
        os.makedirs(os.path.dirname(path) or "/", mode=0o755, exist_ok=True)
        try:
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)  # the umask does not count
        except FileExistsError:
            pass
    check_private(path)


def check_private(path: str) -> None:
    """Refuse a directory that is a link, not ours, or open to others. Raises NodeError; absent is fine."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise NodeError(f"cannot use {path}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a directory"
        raise NodeError(f"cannot use {path}: it is {kind}")
    if found.st_uid != os.geteuid():
        raise NodeError(f"cannot use {path}: it belongs to uid {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & 0o022:
        raise NodeError(
            f"cannot use {path}: others may write to it (mode {found.st_mode & 0o777:04o}); chmod 0700 it first"
        )


def write_atomic(path: str, data: bytes) -> None:
    """Put a file in place whole: temporary file beside it, fsync, rename, fsync of the directory. Raises NodeError."""
    temporary = f"{path}.{os.getpid()}{TEMPORARY_SUFFIX}"
    with _explained("write", path):
        _remove_if_there(temporary)  # of an earlier process with this pid; never opened: it may be anything
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            _remove_if_there(temporary)
            raise
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make a rename in the directory survive a power loss."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_json(path: str, document: Any) -> None:
    """Write a document atomically, keys in order. Raises NodeError."""
    write_atomic(path, json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n")


def read_private(path: str, limit: int = RECORD_LIMIT) -> bytes | None:
    """The bytes of a plain file of ours; None when absent. Raises ValueError with the reason for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError("it is a symbolic link" if error.errno == errno.ELOOP else str(error.strerror)) from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a plain file")
        if found.st_uid != os.geteuid():
            raise ValueError(f"it belongs to uid {found.st_uid}")
        if found.st_mode & 0o022:
            raise ValueError("others may write to it")
        if found.st_nlink > 1:  # none: it was replaced since it was opened, and is whole all the same
            raise ValueError("it has a second name (hard link)")
        if found.st_size > limit:
            raise ValueError(f"it is larger than {limit} bytes")
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read(limit)
    finally:
        os.close(fd)


def read_json(path: str, check: Callable[[dict[str, Any]], bool] | None = None) -> dict[str, Any] | None:
    """The record in a file; None when absent. Raises ValueError with the reason when it is none of ours."""
    data = read_private(path)
    if data is None:
        return None
    if not data.strip(b"\0 \n"):
        raise ValueError("it is empty")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict) or (check is not None and not check(document)):
        raise ValueError("it is not a record of this version")
    return document


def remove_tree(path: str) -> None:
    """Remove a directory of ours with all in it; links are removed, not followed; absent is fine. Raises NodeError."""
    with _explained("remove", path):
        if os.path.islink(path) or not os.path.isdir(path):
            _remove_if_there(path)
            return
        for _, folders, files, fd in os.fwalk(path, topdown=False):  # by descriptors: no name can become a link
            for name in files:
                os.unlink(name, dir_fd=fd)
            for name in folders:
                _remove_folder(name, fd)
        os.rmdir(path)


def remove_temporaries(path: str) -> None:
    """Remove what writers that were killed left half-written in this directory; in a link to one, nothing.

    Raises NodeError.
    """
    with _explained("clean", path):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except NotADirectoryError:
            return
        try:
            for name in os.listdir(fd):
                writer = name.removesuffix(TEMPORARY_SUFFIX).rpartition(".")[2]
                if name.endswith(TEMPORARY_SUFFIX) and not os.path.exists(f"/proc/{writer}"):
                    _remove_if_there(name, fd)
        finally:
            os.close(fd)


def _remove_folder(name: str, fd: int) -> None:
    try:
        os.rmdir(name, dir_fd=fd)
    except NotADirectoryError:  # a link to one
        os.unlink(name, dir_fd=fd)


def _remove_if_there(path: str, folder: int | None = None) -> None:
    try:
        os.unlink(path, dir_fd=folder)
    except FileNotFoundError:
        pass


@contextmanager
def _explained(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NodeError(f"cannot {verb} {path}: {error.strerror}") from None
