"""Turn a reference to a secret into the secret, and a secret into a digest that tells a change and nothing else."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.files import read_private, write_atomic
from llmgw_reconcile.model.desired import SecretRef

SECRET_LIMIT = 64 << 10
KEY_BYTES = 32


def resolve_secret(ref: SecretRef, environ: Mapping[str, str]) -> str:
    """The secret. Raises ValueError with a reason that names the reference only."""
    if ref.source == "env":
        if not environ.get(ref.name):
            raise ValueError(f"the variable {ref.name} is not set")
        return environ[ref.name]
    return _from_file(ref.name)


def _from_file(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path} is not a plain file")
        if found.st_mode & 0o007:
            raise ValueError(f"the file {path} is open to everybody (mode {found.st_mode & 0o777:04o}); chmod 0600 it")
        data = os.read(fd, SECRET_LIMIT + 1)
    finally:
        os.close(fd)
    if len(data) > SECRET_LIMIT:
        raise ValueError(f"the file {path} is larger than {SECRET_LIMIT} bytes")
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"the file {path} is not text") from None
    if not text or "\0" in text:
        raise ValueError(f"the file {path} is empty" if not text else f"the file {path} holds a NUL")
    return text


def read_digest_key(path: str) -> bytes | None:
    """The key of this node's secret digests; None before the first apply. Raises NodeError when it is not ours.

    A key that a power loss cut short is none: an empty one would make the digests plain hashes.
    """
    try:
        key = read_private(path)
    except ValueError as reason:
        raise NodeError(f"cannot use {path}: {reason}") from None
    return key if key is not None and len(key) == KEY_BYTES and any(key) else None


def make_digest_key(path: str) -> bytes:
    """The key, made when there is none yet. Raises NodeError."""
    key = read_digest_key(path)
    if key is None:
        key = os.urandom(KEY_BYTES)
        write_atomic(path, key)
    return key


def digest_secret(key: bytes, secret: str) -> str:
    """A keyed digest (BLAKE2b): useless without the key, which never leaves the state directory."""
    return hashlib.blake2b(secret.encode(), key=key, digest_size=16).hexdigest()
