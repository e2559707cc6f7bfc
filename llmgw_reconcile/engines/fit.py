"""Estimate what an engine needs of each of its GPUs: weights, and the cache of one request of full length.

An estimate: what an engine takes besides (activations, graphs, the CUDA context) is not known beforehand. Where the
arithmetic has a gap, the weights are counted too small rather than too large, so that nothing is refused that works.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from llmgw_reconcile.engines.arguments import argument_value
from llmgw_reconcile.engines.flags import values_in_args
from llmgw_reconcile.engines.quantization import LOAD_TIME_BITS
from llmgw_reconcile.engines.version import at_least
from llmgw_reconcile.model.checkpoint import Cache, Checkpoint
from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.model.launch import Placement

GIB = 1 << 30
TIGHT_ABOVE = 0.95  # of the budget; the rest is little for activations and graphs

_CACHE_BITS = {"auto": 16, "float16": 16, "bfloat16": 16, "bf16": 16, "float32": 32, "nvfp4": 4, "fp4_mx_block16": 4}
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}
_FULL_WIDTH = ("float32", "float")
_WIDE = frozenset({"F32", "F64"})
_HALF = frozenset({"F16", "BF16", ""})  # unnamed: as an index or the size of files tells it


class Share(NamedTuple):
    """Which share of a GPU an engine takes when the file does not say it, from a version on."""

    since: str
    share: float


# vLLM says 0.9 up to 0.16 at least, and 0.92 in 0.26 and 0.33: in between the larger one refuses less.
_DEFAULT_SHARES = (Share("", 0.9), Share("0.17", 0.92))


class Fit(NamedTuple):
    """What each GPU must hold, in bytes, and what it gives; `cache` is None where it is not known."""

    weights: int
    cache: int | None
    budget: int
    words: str  # the arithmetic

    @property
    def holds_weights(self) -> bool:
        """Whether the weights have room."""
        return self.weights <= self.budget

    @property
    def is_tight(self) -> bool:
        """Whether little or nothing is left beside weights and cache."""
        return self.weights + (self.cache or 0) > self.budget * TIGHT_ABOVE


class NotEstimated(NamedTuple):
    """Why there is no estimate."""

    reason: str


def estimate(placement: Placement, checkpoint: Checkpoint, version: str | None) -> Fit | NotEstimated:
    """The arithmetic for one engine on the GPUs that it was given; `version` is that of the installed engine."""
    model = placement.spec.model
    sizes = [gpu.memory_total_mb for gpu in placement.gpus]
    memory = min((size for size in sizes if size is not None), default=None)
    if memory is None or None in sizes:
        return NotEstimated("the memory of its GPUs is not known")
    if checkpoint.size is None:
        return NotEstimated(f"the size of its weights is not known: {checkpoint.path}")
    if model.engine is EngineKind.LLAMA_CPP:
        return _spread(model, checkpoint, sum(size or 0 for size in sizes) << 20)
    loaded = _loaded(model, checkpoint)
    if loaded is None:
        return NotEstimated(f"what {_method(model)} makes of its weights is not known")
    ranks = (model.tensor_parallel_size or 1) * (model.pipeline_parallel_size or 1)
    if (checkpoint.experts or 0) > 1:
        ranks *= model.data_parallel_size or 1  # experts are spread over these too
    weights = max(0, loaded // ranks - _offloaded(model))
    share, of_share = _share(model, version)
    budget = int((memory << 20) * share)
    cache, of_cache = _cache(model, checkpoint)
    words = _weights_words(checkpoint.size, loaded, ranks, weights, _method(model))
    room = f"{_gib(budget)} ({_gib(memory << 20)}{of_share})" if of_share else _gib(budget)
    return Fit(weights, cache, budget, f"{words}{of_cache} of {room}")


def _spread(model: ModelSpec, checkpoint: Checkpoint, memory: int) -> Fit:
    """llama-server takes its GPUs together, each as far as it goes."""
    size = checkpoint.size or 0
    cache, of_cache = _cache(model, checkpoint)
    return Fit(size, cache, memory, f"{_gib(size)} of weights{of_cache} of {_gib(memory)}")


def asked_context(model: ModelSpec) -> int | None:
    """The context length that the file or its `args` ask for, in tokens; None where they leave it to the model.

    `1k` is 1000, `1Ki` is 1024, as the engines read it; `1K` is 1024 for vLLM.
    """
    if model.max_model_len is not None:
        return model.max_model_len
    given = (values_in_args(model, "max_model_len") or ("",))[-1]
    match = re.fullmatch(r"(\d+)([kmgKMG]?)(i?)", given)
    if match is None:
        return None
    number, unit, suffix = int(match[1]), match[2].lower(), match[3]
    is_binary = suffix or (match[2].isupper() and model.engine is EngineKind.VLLM)
    return number * ((1024 if is_binary else 1000) ** _POWERS[unit]) or None


def _loaded(model: ModelSpec, checkpoint: Checkpoint) -> int | None:
    """Bytes of the weights once they are loaded; None where a quantization makes of them what is not known."""
    bits = 16
    if checkpoint.quantization is None and (method := _method(model)):
        if method not in LOAD_TIME_BITS:
            return None
        bits = LOAD_TIME_BITS[method]
    keeps_wide = any(dtype in _FULL_WIDTH for dtype in (model.dtype, *values_in_args(model, "dtype")))
    total = 0
    for dtype, size in checkpoint.weights:
        if dtype in _WIDE and not keeps_wide and checkpoint.quantization is None:
            total += size * bits // (64 if dtype == "F64" else 32)
        else:
            total += size * bits // 16 if dtype in _HALF and checkpoint.quantization is None else size
    return total


def _method(model: ModelSpec) -> str | None:
    return model.quantization or next(iter(values_in_args(model, "quantization")), None)


def _offloaded(model: ModelSpec) -> int:
    """Bytes of each GPU's weights that stay in the memory of the node."""
    try:
        return int(float(argument_value(model, "--cpu-offload-gb") or 0) * GIB)
    except ValueError:
        return 0


def _share(model: ModelSpec, version: str | None) -> tuple[float, str]:
    """The share of a GPU that the engine takes, and it in words; all of it where it finds out by itself."""
    given = [model.gpu_memory_utilization, *values_in_args(model, "gpu_memory_utilization")]
    asked = next((float(value) for value in given if value is not None and _is_number(str(value))), None)
    if argument_value(model, "--kv-cache-memory-bytes") is not None or (
        model.engine is EngineKind.SGLANG and asked is None
    ):
        return 1.0, ""
    if asked is None:
        held = [row for row in _DEFAULT_SHARES if version is None or at_least(version, row.since)]
        asked = held[-1].share
    return asked, f" x {asked:g}"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d*\.?\d+", text) is not None


def _cache(model: ModelSpec, checkpoint: Checkpoint) -> tuple[int | None, str]:
    """Bytes of a GPU for one request of full length, and the words for them."""
    tokens, bits = asked_context(model) or checkpoint.context, _cache_bits(model)
    numbers = _numbers(checkpoint.cache, tokens, model) if checkpoint.cache and tokens else None
    if numbers is None or bits is None:
        return None, ""
    size = numbers * bits // 8
    return size, f" + {_gib(size)} KV cache for {tokens} tokens"


def _numbers(cache: Cache, tokens: int, model: ModelSpec) -> int | None:
    """How many numbers one request of that length leaves on one GPU."""
    is_split = model.engine is not EngineKind.LLAMA_CPP
    tensor, pipeline = (model.tensor_parallel_size or 1, model.pipeline_parallel_size or 1) if is_split else (1, 1)
    if cache.latent is not None:
        of_token = cache.latent  # every rank keeps all of it
    elif cache.kv_heads is not None and cache.head_dim is not None:
        of_token = 2 * max(1, -(-cache.kv_heads // tensor)) * cache.head_dim
    else:
        return None
    in_window = min(tokens, cache.window or tokens)
    of_layers = cache.layers * tokens + cache.windowed_layers * in_window
    return -(-of_layers * of_token // pipeline)


def _cache_bits(model: ModelSpec) -> int | None:
    """Bits of a number in the cache; None where the type is not known."""
    if model.engine is EngineKind.LLAMA_CPP:
        return None if argument_value(model, "--cache-type-k", "--cache-type-v") else 16
    name = model.kv_cache_dtype or next(iter(values_in_args(model, "kv_cache_dtype")), "auto")
    if name == "auto":
        return 32 if model.dtype in _FULL_WIDTH else 16
    return 8 if name.startswith(("fp8", "int8", "mxfp8")) else _CACHE_BITS.get(name)


def _weights_words(stored: int, loaded: int, ranks: int, of_gpu: int, method: str | None) -> str:
    words = f"{_gib(stored)} of weights"
    if loaded != stored:
        words += f", {_gib(loaded)} when loaded" + (f" as {method}" if method else " in 16 bit")
    if ranks > 1:
        words += f" / {ranks} GPUs"
    return words if loaded // ranks == of_gpu and ranks == 1 else f"{words} = {_gib(of_gpu)}"


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
