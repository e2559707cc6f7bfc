"""Turn a recorded launch into what can be executed: secrets looked up, files of `args` copied beside the records."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.files import private_directory, write_atomic
from llmgw_reconcile.host.secrets import resolve_secret
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.spec import Document
from llmgw_reconcile.statefile.read import read_plain_file


class Resolved(NamedTuple):
    """The real argv and environment, the key for probes, and every secret value in them."""

    argv: tuple[str, ...]
    env: dict[str, str]
    bearer: str | None
    secrets: tuple[str, ...]


def resolve_launch(document: Document, folder: EngineDir, environ: Mapping[str, str]) -> Resolved:
    """Look up what the document refers to. Raises NodeError naming each reference that cannot be resolved."""
    problems: list[str] = []
    secrets: list[str] = []

    def value_of(item: Any) -> str:
        if isinstance(item, str):
            return item
        if "digest" in item:
            return copy_of(item, folder)
        try:
            secret = resolve_secret(secret_ref(item), environ)
        except ValueError as reason:
            problems.append(str(reason))
            return ""
        secrets.append(secret)
        return secret

    argv = tuple(value_of(item) for item in document["argv"])
    env = {name: value_of(item) for name, item in document["env"].items()}
    bearer = value_of(document["api_key"]) if document.get("api_key") else None
    if problems:
        raise NodeError("cannot read a secret: " + "; ".join(sorted(set(problems))))
    return Resolved(argv, env, bearer, tuple(sorted(set(secrets))))


def secret_ref(item: Mapping[str, str]) -> SecretRef:
    """The reference behind its JSON form."""
    ((source, name),) = item.items()
    return SecretRef(source, name)


def copy_of(item: Mapping[str, str], folder: EngineDir) -> str:
    """Where the copy of a file is: named by its content, so that an edit of the original changes no running engine."""
    name = f"{item['digest'].rpartition(':')[2][:16]}-{os.path.basename(item['file'])}"
    return os.path.join(folder.path, "files", name)


def copy_files(document: Document, folder: EngineDir) -> None:
    """Copy the `{file:}` items of `args` into the engine's folder, with the very content that the launch was made for.

    A copy that is there already stands for an original that was edited since. Raises NodeError when neither has that
    content.
    """
    for item in document["argv"]:
        if isinstance(item, str) or "digest" not in item:
            continue
        copy, original = copy_of(item, folder), item["file"]
        if _digest_of(copy) == item["digest"]:
            continue
        try:
            data = read_plain_file(original)
        except OSError as error:
            raise NodeError(f"cannot read {original}: {error.strerror}") from None
        if _digest(data) != item["digest"]:
            raise NodeError(f"cannot use {original}: it was edited since it was planned; plan again")
        private_directory(os.path.dirname(copy))
        write_atomic(copy, data)


def _digest_of(path: str) -> str:
    try:
        return _digest(read_plain_file(path))
    except OSError:
        return ""


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
