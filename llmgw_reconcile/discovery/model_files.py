"""Say where a model lies on this node's disk, and which content of it that is, without opening a weight."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping

from llmgw_reconcile.host.file_start import read_start

INDEX = "model.safetensors.index.json"


def find_in_cache(model: str, revision: str | None, variables: Mapping[str, str], home: str) -> str | None:
    """The folder of a hub id in the local Hugging Face cache, whole or not; None where there is none.

    `variables` are those of the engine, `home` its account's (huggingface_hub, "Manage the cache").
    """
    base = variables.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    hub = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE")
    hub = hub or os.path.join(variables.get("HF_HOME") or os.path.join(base, "huggingface"), "hub")
    folder = os.path.join(hub, "models--" + model.replace("/", "--"))
    wanted = revision or "main"
    try:
        commit = read_start(os.path.join(folder, "refs", wanted), 100).decode().strip()
    except (OSError, ValueError):
        commit = wanted
    snapshot = os.path.join(folder, "snapshots", commit)
    return snapshot if "/" not in commit and commit not in ("", ".", "..") and os.path.isdir(snapshot) else None


def content_marks(path: str) -> dict[str, str]:
    """Size and time of change of the files that tell one content of a model from another: file -> words.

    Of a folder its config and its index, or its one file of weights. Nothing is opened.
    """
    if not os.path.isdir(path):
        return _marks(os.path.dirname(path), [os.path.basename(path)])
    marks = _marks(path, ["config.json", INDEX])
    return marks if INDEX in marks else marks | _marks(path, ["model.safetensors"])


def _marks(folder: str, names: Iterable[str]) -> dict[str, str]:
    marks = {}
    for name in names:
        try:
            found = os.stat(os.path.join(folder, name))
        except OSError:
            continue
        changed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime))
        marks[name] = f"{found.st_size} bytes of {changed}"
    return marks
