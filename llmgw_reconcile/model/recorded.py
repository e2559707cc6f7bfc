"""Turn a recorded spec back into the engine it describes, so that it can be started again without its state file."""

from __future__ import annotations

from typing import Any

from llmgw_reconcile.model.desired import (
    Device,
    EngineKind,
    FileArg,
    GpuRequest,
    GroupNode,
    Liveness,
    ModelSpec,
    Readiness,
    Restart,
    SecretRef,
)
from llmgw_reconcile.model.spec import Document, EngineSpec, model_of

PLAIN = (
    "revision",
    "executable",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "quantization",
    "dtype",
    "kv_cache_dtype",
    "max_model_len",
    "gpu_memory_utilization",
    "host",
    "port",
)


def recorded_spec(engine: str, document: Document, bookkeeping: Document) -> EngineSpec:
    """The engine of these documents. Raises KeyError, TypeError or ValueError when they are none of `engines_of`.

    The documents come back unchanged, so that nothing seems to have changed between the record and itself.
    """
    gpus = document.get("gpus", {})
    model = ModelSpec(
        name=model_of(engine),
        model=document["model"],
        engine=EngineKind(document["engine"]),
        prefix=tuple(document.get("prefix", ())),
        device=Device(document.get("device", Device.CUDA)),
        served_model_name=tuple(document["served_model_name"]),
        nodes=tuple(_node(item) for item in document.get("nodes", ())),
        gpus=GpuRequest(gpus.get("class"), tuple(gpus.get("ids", ())), gpus.get("count"), gpus.get("share", False)),
        api_key=_secret(document["api_key"]) if "api_key" in document else None,
        env={name: _env_value(value) for name, value in document.get("env", {}).items()},
        args=tuple(_argument(item) for item in document.get("args", ())),
        config_files=tuple(FileArg(*item) for item in document.get("config_files", {}).items()),
        engine_version=bookkeeping.get("engine_version"),
        labels=bookkeeping["labels"],
        protect=bookkeeping["protect"],
        adopt=bookkeeping["adopt"],
        accept=tuple(bookkeeping["accept"]),
        readiness=Readiness(**bookkeeping["readiness"]),
        restart=Restart(**bookkeeping["restart"]),
        liveness=Liveness(**bookkeeping.get("liveness") or {}),
        stop_grace=bookkeeping["stop_grace"],
        update=bookkeeping["update"],
        where=f"the record of {engine}",
        **{name: document[name] for name in PLAIN if name in document},
    )
    replica = int(engine.rpartition("@")[2])
    return EngineSpec(engine, model, replica, document.get("port"), model.gpus.ids, document, bookkeeping)


def _secret(value: dict[str, str]) -> SecretRef:
    ((source, name),) = value.items()
    return SecretRef(source, name)


def _env_value(value: Any) -> str | SecretRef:
    return value if isinstance(value, str) else _secret(value)


def _node(item: Any) -> GroupNode:
    return GroupNode(item, item) if isinstance(item, str) else GroupNode(item["name"], item["address"])


def _argument(item: Any) -> str | FileArg:
    return item if isinstance(item, str) else FileArg(item["file"], item["digest"])
