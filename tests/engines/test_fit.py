"""The arithmetic of memory, worked out by hand. A GiB is 1024 MiB, and a card of 80 GiB has 81920 MiB."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.engines.fit import Fit, NotEstimated, asked_context, estimate
from llmgw_reconcile.model.checkpoint import Cache, Checkpoint, OwnQuantization, Stored
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.model.gpu import Gpu
from tests.fakes.placed import A100, a_model, a_placement, gpu

GIB = 1 << 30
SGLANG, LLAMA = EngineKind.SGLANG, EngineKind.LLAMA_CPP
# 80 layers, 8 key-value heads of 128: a token leaves 2 x 80 x 8 x 128 x 2 bytes = 320 KiB behind.
BIG = Checkpoint(
    "/m",
    layers=80,
    heads=64,
    kv_heads=8,
    context=131072,
    cache=Cache(80, kv_heads=8, head_dim=128),
    weights=(Stored("BF16", 140 * GIB),),
)


def fit(checkpoint: Checkpoint, *, gpus: int = 1, version: str | None = None, **fields: Any) -> Fit:
    cards = [gpu(index, A100) for index in range(gpus)]
    found = estimate(a_placement(*cards, **fields), checkpoint, version)
    assert isinstance(found, Fit)
    return found


def test_weights_and_cache_are_split_over_the_ranks() -> None:
    found = fit(BIG, gpus=4, tensor_parallel_size=4, max_model_len=32768, gpu_memory_utilization=0.9)
    assert found == Fit(
        weights=35 * GIB,
        cache=32768 * 320 * 1024 // 4,
        budget=72 * GIB,
        words=(
            "140.0 GiB of weights / 4 GPUs = 35.0 GiB + 2.5 GiB KV cache for 32768 tokens of 72.0 GiB (80.0 GiB x 0.9)"
        ),
    )
    assert (found.holds_weights, found.is_tight) == (True, False)


@pytest.mark.parametrize(
    ("gpus", "fields", "weights", "cache"),
    [
        pytest.param(1, {}, 140.0, 40.0, id="alone-with-the-models-own-context"),
        pytest.param(8, {"tensor_parallel_size": 8}, 17.5, 5.0, id="tp-8"),
        pytest.param(16, {"tensor_parallel_size": 16}, 8.75, 5.0, id="key-value-heads-are-repeated-beyond-8"),
        pytest.param(2, {"pipeline_parallel_size": 2}, 70.0, 20.0, id="pp-2"),
        pytest.param(4, {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, 35.0, 10.0, id="tp-2-pp-2"),
        pytest.param(4, {"tensor_parallel_size": 2, "data_parallel_size": 2}, 70.0, 20.0, id="dp-copies-the-weights"),
        pytest.param(1, {"max_model_len": 8192}, 140.0, 2.5, id="a-shorter-context"),
        pytest.param(1, {"args": ("--max-model-len", "8Ki")}, 140.0, 2.5, id="a-shorter-context-in-args"),
        pytest.param(1, {"kv_cache_dtype": "fp8_e5m2"}, 140.0, 20.0, id="a-cache-in-fp8"),
        pytest.param(1, {"args": ("--kv-cache-dtype=fp8",)}, 140.0, 20.0, id="a-cache-in-fp8-in-args"),
        pytest.param(1, {"kv_cache_dtype": "nvfp4"}, 140.0, 10.0, id="a-cache-in-fp4"),
        pytest.param(1, {"dtype": "float32"}, 140.0, 80.0, id="a-cache-in-full-width"),
        pytest.param(1, {"kv_cache_dtype": "turboquant_3"}, 140.0, None, id="a-cache-that-is-not-known"),
        pytest.param(1, {"quantization": "fp8"}, 70.0, 40.0, id="fp8-while-loading"),
        pytest.param(1, {"args": ("-q", "fp8")}, 70.0, 40.0, id="fp8-while-loading-in-args"),
        pytest.param(1, {"quantization": "bitsandbytes"}, 35.0, 40.0, id="4-bit-while-loading"),
        pytest.param(1, {"args": ("--cpu-offload-gb", "40")}, 100.0, 40.0, id="40-GiB-stay-in-the-node"),
    ],
)
def test_what_a_gpu_must_hold(gpus: int, fields: dict[str, Any], weights: float, cache: float | None) -> None:
    found = fit(BIG, gpus=gpus, **fields)
    assert (found.weights, found.cache) == (weights * GIB, None if cache is None else cache * GIB)


@pytest.mark.parametrize(
    ("stored", "fields", "weights"),
    [
        pytest.param((Stored("F32", 8),), {}, 4, id="full-width-is-loaded-in-16-bit"),
        pytest.param((Stored("F32", 8),), {"dtype": "float32"}, 8, id="unless-it-is-asked-for"),
        pytest.param((Stored("F32", 8),), {"quantization": "fp8"}, 2, id="and-then-quantized"),
        pytest.param((Stored("", 8),), {}, 8, id="a-size-without-a-type"),
        pytest.param((Stored("F8_E4M3", 8), Stored("BF16", 4)), {"quantization": "fp8"}, 10, id="only-16-bit-shrinks"),
        pytest.param((Stored("GGUF", 8),), {}, 8, id="gguf"),
    ],
)
def test_stored_and_loaded_weights_differ(stored: tuple[Stored, ...], fields: dict[str, Any], weights: int) -> None:
    sizes = tuple(Stored(dtype, size * GIB) for dtype, size in stored)
    assert fit(Checkpoint("/m", weights=sizes), **fields).weights == weights * GIB


def test_a_checkpoint_that_is_quantized_already_is_not_quantized_again() -> None:
    own = Checkpoint("/m", quantization=OwnQuantization("fp8"), weights=(Stored("BF16", 2 * GIB), Stored("F32", GIB)))
    assert fit(own, quantization="fp8").weights == 3 * GIB


def test_experts_are_spread_over_data_parallel_ranks_too() -> None:
    experts = BIG._replace(experts=256)
    assert fit(experts, gpus=8, tensor_parallel_size=4, data_parallel_size=2).weights == 17.5 * GIB


@pytest.mark.parametrize(
    ("cache", "fields", "expected"),
    [
        pytest.param(
            Cache(10, latent=576), {"tensor_parallel_size": 4}, 10 * 1024 * 576 * 2, id="compressed-is-not-split"
        ),
        pytest.param(
            Cache(2, 6, 256, 4, 64), {}, (2 * 1024 + 6 * 256) * 2 * 4 * 64 * 2, id="windows-keep-their-newest-tokens"
        ),
        pytest.param(
            Cache(2, 6, 4096, 4, 64), {}, (2 + 6) * 1024 * 2 * 4 * 64 * 2, id="a-window-longer-than-the-context"
        ),
        pytest.param(Cache(10, kv_heads=4), {}, None, id="an-unknown-head-dim"),
    ],
)
def test_caches_of_other_kinds(cache: Cache, fields: dict[str, Any], expected: int | None) -> None:
    checkpoint = Checkpoint("/m", context=1024, cache=cache, weights=(Stored("BF16", GIB),))
    assert fit(checkpoint, gpus=fields.get("tensor_parallel_size", 1), **fields).cache == expected


def test_without_any_context_the_cache_is_not_known() -> None:
    found = fit(BIG._replace(context=None), gpus=4, tensor_parallel_size=4)
    assert (found.cache, found.words) == (
        None,
        "140.0 GiB of weights / 4 GPUs = 35.0 GiB of 73.6 GiB (80.0 GiB x 0.92)",
    )


@pytest.mark.parametrize(
    ("fields", "version", "budget"),
    [
        pytest.param({}, None, 73.6, id="the-newest-default"),
        pytest.param({}, "0.33.0", 73.6, id="the-default-of-0.33"),
        pytest.param({}, "0.16.0", 72.0, id="the-default-of-0.16"),
        pytest.param({"gpu_memory_utilization": 0.5}, None, 40.0, id="in-the-file"),
        pytest.param({"args": ("--gpu-memory-utilization", ".5")}, None, 40.0, id="in-args"),
        pytest.param({"args": ("--kv-cache-memory-bytes", "1G")}, None, 80.0, id="overridden"),
        pytest.param({"engine": SGLANG}, None, 80.0, id="sglang-finds-out-by-itself"),
        pytest.param({"engine": SGLANG, "gpu_memory_utilization": 0.5}, None, 40.0, id="sglang-in-the-file"),
    ],
)
def test_the_share_of_a_gpu(fields: dict[str, Any], version: str | None, budget: float) -> None:
    assert fit(BIG, version=version, **fields).budget == int(budget * GIB)


def test_the_smallest_card_decides() -> None:
    small = gpu(1, A100, memory_total_mb=40960)
    found = estimate(a_placement(gpu(0, A100), small, tensor_parallel_size=2), BIG, None)
    assert isinstance(found, Fit)
    assert found.budget == int(36.8 * GIB)


def test_llama_server_takes_its_cards_together() -> None:
    tiny = Checkpoint(
        "/m.gguf", context=4096, cache=Cache(32, kv_heads=8, head_dim=128), weights=(Stored("GGUF", 30 * GIB),)
    )
    found = fit(tiny, gpus=2, engine=LLAMA, tensor_parallel_size=2)
    assert found == Fit(
        30 * GIB, GIB // 2, 160 * GIB, "30.0 GiB of weights + 0.5 GiB KV cache for 4096 tokens of 160.0 GiB"
    )


def test_tightness_is_a_matter_of_the_whole() -> None:
    assert [Fit(weights, cache, 100, "").is_tight for weights, cache in ((90, 5), (90, 6), (96, None), (95, None))] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("checkpoint", "card", "fields", "reason"),
    [
        pytest.param(
            BIG, gpu(0, A100, memory_total_mb=None), {}, "the memory of its GPUs is not known", id="memory-unknown"
        ),
        pytest.param(
            Checkpoint("/m"), gpu(0, A100), {}, "the size of its weights is not known: /m", id="weights-unknown"
        ),
        pytest.param(
            BIG,
            gpu(0, A100),
            {"quantization": "torchao"},
            "what torchao makes of its weights is not known",
            id="method",
        ),
    ],
)
def test_what_cannot_be_estimated_says_why(
    checkpoint: Checkpoint, card: Gpu, fields: dict[str, Any], reason: str
) -> None:
    assert estimate(a_placement(card, **fields), checkpoint, None) == NotEstimated(reason)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"max_model_len": 4096}, 4096),
        ({"args": ("--max-model-len", "4096")}, 4096),
        ({"args": ("--max-model-len=8k",)}, 8000),
        ({"args": ("--max-model-len=8K",)}, 8192),
        ({"args": ("--max-model-len=1m",)}, 1000000),
        ({"args": ("--context-length", "8K"), "engine": SGLANG}, 8000),
        ({"args": ("--context-length", "8Ki"), "engine": SGLANG}, 8192),
        ({"args": ("--max-model-len", "auto")}, None),
        ({"args": ("--max-model-len", "-1")}, None),
        ({"args": ("-c", "0"), "engine": LLAMA}, None),
        ({}, None),
    ],
)
def test_the_context_that_is_asked_for(fields: dict[str, Any], tokens: int | None) -> None:
    assert asked_context(a_model(**fields)) == tokens
