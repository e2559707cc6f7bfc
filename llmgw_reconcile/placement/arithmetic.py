"""The sizes of a model to the number of GPUs that they come to, in words."""

from __future__ import annotations

from llmgw_reconcile.model.desired import ModelSpec

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def world_in_words(model: ModelSpec) -> str:
    """The factors that the file gives; empty when it gives none and one GPU is enough.

    >>> from llmgw_reconcile.model.desired import EngineKind
    >>> world_in_words(ModelSpec("chat", "m", EngineKind.VLLM, tensor_parallel_size=4, pipeline_parallel_size=2))
    'tensor_parallel_size 4 x pipeline_parallel_size 2'
    """
    if model.is_sized_by_count:
        return f"gpus.count {model.gpus.count}"
    sizes = ((size, getattr(model, size)) for size in _SIZES)
    return " x ".join(f"{size} {value}" for size, value in sizes if value is not None)


def need_in_words(model: ModelSpec) -> str:
    """What one replica needs on this node, with the arithmetic: `16 GPUs (tensor_parallel_size 16)`."""
    words = world_in_words(model)
    if model.nodes:
        words = f"{words or '1'} / {len(model.nodes)} nodes"
    need = count_in_words(model.gpus_per_replica)
    return f"{need} ({words})" if words else need


def count_in_words(count: int) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
