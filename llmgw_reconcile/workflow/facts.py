"""Look on this node for what each engine needs: its executable, its model, its port and its secrets."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence

from llmgw_reconcile.engines.catalog import default_executable
from llmgw_reconcile.host.secrets import digest_secret, resolve_secret
from llmgw_reconcile.model.desired import EngineKind, ModelSpec, SecretRef
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.observed import ForeignProcess
from llmgw_reconcile.validate.facts import EngineFacts
from llmgw_reconcile.workflow.lookup import Lookup

SYSTEM_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")


def find_executable(model: ModelSpec, environ: Mapping[str, str]) -> tuple[str | None, str]:
    """The absolute path of an engine's program, or None and where it was looked for.

    A bare name is looked for on the caller's PATH, beside llmgw's own interpreter, and in the system's folders.
    """
    name = model.executable or default_executable(model.engine)
    if "/" in name:
        return (name, "") if _is_executable(name) else (None, _why_not(name))
    folders = [*environ.get("PATH", "").split(os.pathsep), os.path.dirname(sys.executable), *SYSTEM_FOLDERS]
    for folder in folders:
        path = os.path.join(folder, name)
        if folder.startswith("/") and _is_executable(path):
            return path, ""
    searched = ", ".join(dict.fromkeys(folder for folder in folders if folder))
    return None, f"{name} is on none of these folders: {searched}"


def gather_facts(
    placement: Placement,
    problem: str,
    listeners: Mapping[int, ForeignProcess],
    lookup: Lookup,
    *,
    is_running: bool,
    needs_start: bool,
) -> EngineFacts:
    """What the rules want to know of one placed engine; `problem` is that of its executable.

    `needs_start` False: it runs as wanted, and its model and executable are not opened.
    """
    model = placement.spec.model
    facts = EngineFacts(
        executable=None if problem else placement.executable,
        executable_problem=problem,
        model_problem=_model_problem(model, needs_start=needs_start) if model.model.startswith("/") else "",
        needs_start=needs_start,
        listener=None if is_running or placement.port is None else listeners.get(placement.port),
    )
    if not needs_start:
        return facts
    return facts._replace(
        checkpoint=lookup.checkpoint(model),
        installed=lookup.installed(model.engine, placement.executable),
        was_asked=lookup.was_asked(model.engine, placement.executable),
    )


def secret_refs(model: ModelSpec) -> dict[str, SecretRef]:
    """Where a model's secrets are, by field: `api_key`, `env.NAME`."""
    refs = {f"env.{name}": value for name, value in model.env.items() if isinstance(value, SecretRef)}
    return refs if model.api_key is None else {"api_key": model.api_key, **refs}


def secret_digests(
    model: ModelSpec, key: bytes | None, environ: Mapping[str, str]
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The keyed digest of each secret, None where it cannot be read, and the reasons for those.

    Without a key nothing was recorded yet, and every readable secret gets an empty digest.
    """
    digests: dict[str, str | None] = {}
    problems = []
    for field, ref in sorted(secret_refs(model).items()):
        try:
            secret = resolve_secret(ref, environ)
        except ValueError as reason:
            digests[field] = None
            problems.append(f"{field}: {reason}")
        else:
            digests[field] = digest_secret(key, secret) if key else ""
    return digests, tuple(problems)


def _model_problem(model: ModelSpec, *, needs_start: bool) -> str:
    """What is wrong with a local model; its config is read only before a start."""
    path = model.model
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return f"{path}: {error.strerror}"
    if model.engine is EngineKind.LLAMA_CPP:
        return "" if stat.S_ISREG(mode) and os.access(path, os.R_OK) else f"{path}: not a readable file"
    if not stat.S_ISDIR(mode):
        return "" if os.access(path, os.R_OK) else f"{path}: not readable"
    return _config_problem(path) if needs_start else ""


def _config_problem(path: str) -> str:
    from llmgw_reconcile.discovery.checkpoint import read_config

    config = os.path.join(path, "config.json")
    try:
        read_config(config)
    except OSError as error:
        is_mistral = os.path.exists(os.path.join(path, "params.json"))  # which engines take instead
        return "" if is_mistral else f"{config}: {error.strerror}"
    except ValueError as reason:
        return str(reason)
    return ""


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _why_not(path: str) -> str:
    if not os.path.exists(path):
        return f"{path}: No such file or directory"
    return f"{path}: not a file" if not os.path.isfile(path) else f"{path}: not executable"


def stranger_ports(listeners: Sequence[tuple[int, ForeignProcess]]) -> dict[int, ForeignProcess]:
    """The first stranger on each port."""
    found: dict[int, ForeignProcess] = {}
    for port, process in listeners:
        found.setdefault(port, process)
    return found
