"""Turn one entry of `models:` into its engines, each with the document that decides whether a change replaces it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from llmgw_reconcile.model.desired import Device, FileArg, ModelSpec, SecretRef
from llmgw_reconcile.model.group import rank_of

# Fields whose change needs no restart (contract §4): they give `update`, never `replace`.
# A pin is one of them: it is held against the version that runs, and a new one that this version meets changes nothing.
BOOKKEEPING = (
    *("labels", "protect", "adopt", "accept", "readiness", "restart", "liveness", "stop_grace", "update"),
    "engine_version",
)

Document = dict[str, Any]  # JSON values only


class EngineSpec(NamedTuple):
    """Replica `replica` of a model: what is wanted, before GPUs and a free port are found for it."""

    engine: str  # "llama-70b@0"
    model: ModelSpec
    replica: int
    port: int | None  # None: to be taken from node.ports
    gpu_ids: tuple[str, ...]  # the slice of gpus.ids that is this replica's
    document: Document  # fields that force a replacement
    bookkeeping: Document
    rank: int = 0  # of this node in `nodes`


def engine_id(model: str, replica: int) -> str:
    """`M@N`.

    >>> engine_id("llama-70b", 0)
    'llama-70b@0'
    """
    return f"{model}@{replica}"


def model_of(engine: str) -> str:
    """The model of `M@N`.

    >>> model_of("llama-70b@0")
    'llama-70b'
    """
    return engine.rpartition("@")[0]


def engines_here(models: Iterable[ModelSpec], names: Sequence[str]) -> tuple[EngineSpec, ...]:
    """The engines that the node called `names` has a part in; a model whose `nodes` do not name it is not its own."""
    ranks = ((model, rank_of(model.nodes, names)) for model in models)
    return tuple(spec for model, rank in ranks if rank is not None for spec in engines_of(model, rank))


def engines_of(model: ModelSpec, rank: int = 0) -> tuple[EngineSpec, ...]:
    """The engines of a model, replica 0 first; none when `replicas: 0` parks it. `rank` is this node's in `nodes`."""
    return tuple(_engine(model, replica, rank) for replica in range(model.replicas))


def _engine(model: ModelSpec, replica: int, rank: int) -> EngineSpec:
    port = None if model.port is None else model.port + replica
    size = model.gpus_per_replica
    ids = model.gpus.ids[replica * size : (replica + 1) * size]
    return EngineSpec(
        engine=engine_id(model.name, replica),
        model=model,
        replica=replica,
        port=port,
        gpu_ids=ids,
        document=_spec_document(model, port, ids),
        bookkeeping=_bookkeeping(model),
        rank=rank,
    )


def _spec_document(model: ModelSpec, port: int | None, gpu_ids: tuple[str, ...]) -> Document:
    """Only what the file says: a default of llmgw that changes with a release must not restart an engine."""
    count = model.gpus.count if model.is_sized_by_count else None  # else it says once more what the sizes say
    gpus = {"class": model.gpus.gpu_class, "ids": list(gpu_ids), "count": count, "share": model.gpus.share}
    document: Document = {
        "model": model.model,
        "engine": str(model.engine),
        "revision": model.revision,
        "executable": model.executable,
        "prefix": list(model.prefix),
        "device": None if model.device is Device.CUDA else str(model.device),
        "served_model_name": list(model.served_model_name),
        "tensor_parallel_size": model.tensor_parallel_size,
        "pipeline_parallel_size": model.pipeline_parallel_size,
        "data_parallel_size": model.data_parallel_size,
        "nodes": [node.as_json for node in model.nodes],
        "quantization": model.quantization,
        "dtype": model.dtype,
        "kv_cache_dtype": model.kv_cache_dtype,
        "max_model_len": model.max_model_len,
        "gpu_memory_utilization": model.gpu_memory_utilization,
        "gpus": {name: value for name, value in gpus.items() if value},
        "host": model.host,
        "port": port,
        "api_key": None if model.api_key is None else model.api_key.as_json,
        "env": {name: _env_json(model.env[name]) for name in sorted(model.env)},
        "args": [item.as_json if isinstance(item, FileArg) else item for item in model.args],
        "config_files": {file.path: file.digest for file in model.config_files if file.digest},
    }
    return {name: value for name, value in document.items() if value not in (None, [], {})}


def _env_json(value: str | SecretRef) -> str | Mapping[str, str]:
    return value if isinstance(value, str) else value.as_json


def _bookkeeping(model: ModelSpec) -> Document:
    return {
        "labels": dict(sorted(model.labels.items())),
        "protect": model.protect,
        "adopt": model.adopt,
        "accept": list(model.accept),
        "readiness": model.readiness._asdict(),
        "restart": model.restart._asdict(),
        "liveness": model.liveness._asdict() if model.liveness.failures else None,  # absent from older records
        "stop_grace": model.stop_grace,
        "update": model.update,
        "engine_version": model.engine_version,
    }
