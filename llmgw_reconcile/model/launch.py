"""How an engine is started: where it was placed, and the exact argv, environment and GPUs that follow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from llmgw_reconcile.model.desired import NOTHING, EngineKind, FileArg, SecretRef
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.group import Member
from llmgw_reconcile.model.spec import Document, EngineSpec


class ReadyWhen(StrEnum):
    """What tells that an engine is ready on this node."""

    SERVES = "serve"  # its process, its listener, its health and the served model
    HEALTHY = "health"  # its process, its listener and its health: it has no model list of its own
    LIVES = "process"  # its process alone: it opens no port


class PortNeeds(NamedTuple):
    """The ports that an engine opens on this node."""

    listens: bool = True  # whether it serves here
    offsets: tuple[int, ...] = ()  # further ports, counted from the serving one
    fixed: tuple[int, ...] = ()  # further ports, wherever it serves

    def all_of(self, port: int | None) -> tuple[int, ...]:
        """Every port, when it serves on that one."""
        return self.fixed if port is None else (port, *(port + offset for offset in self.offsets), *self.fixed)


class Placement(NamedTuple):
    """What one engine was given on this node."""

    spec: EngineSpec
    gpus: tuple[Gpu, ...]  # in the order of CUDA_VISIBLE_DEVICES; empty on the CPU
    port: int | None  # None: it serves nothing on this node
    executable: str  # absolute path; the name as written when it was not found
    member: Member | None = None  # its part in an engine over several nodes


class Launch(NamedTuple):
    """The exact start of an engine. Secrets stand in it by reference only; a FileArg by its source path."""

    engine: str
    kind: EngineKind
    argv: tuple[str | SecretRef | FileArg, ...]
    env: tuple[tuple[str, str | SecretRef], ...]  # sorted by name; whole environment but for HOME & co. of the account
    gpus: tuple[str, ...]  # UUIDs
    host: str
    port: int | None  # None: nothing listens here
    served: tuple[str, ...]
    api_key: SecretRef | None = None  # for the probe
    health_path: str = "/health"
    probe_timeout: float = 5.0  # seconds; SGLang's /health may take more than one
    loading_grace: float = 5.0  # seconds from SIGTERM to SIGKILL while the engine loads
    readiness: ReadyWhen = ReadyWhen.SERVES
    engine_version: str | None = None  # of the executable; None: not known
    model_files: Mapping[str, str] = NOTHING  # what tells this content of the model from another; empty: not known


SECRET_TEXT = "(secret)"  # noqa: S105 - what is shown instead of one


def launch_document(launch: Launch) -> Document:
    """The launch as JSON values, as launch.json keeps it and the plan compares it: secrets by reference only."""
    return {
        "kind": str(launch.kind),
        "argv": [item if isinstance(item, str) else item.as_json for item in launch.argv],
        "env": {name: value if isinstance(value, str) else value.as_json for name, value in launch.env},
        "gpus": list(launch.gpus),
        "host": launch.host,
        "port": launch.port,
        "served": list(launch.served),
        "api_key": None if launch.api_key is None else launch.api_key.as_json,
        "health_path": launch.health_path,
        "probe_timeout": launch.probe_timeout,
        "loading_grace": launch.loading_grace,
        "readiness": str(launch.readiness),
        "engine_version": launch.engine_version,
        "model_files": dict(launch.model_files),
    }
