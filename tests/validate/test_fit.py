"""What a checkpoint on this node's disk says against a start, and the arithmetic of its memory."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.checkpoint import Cache, Checkpoint, Damage, DamageKind, Stored
from llmgw_reconcile.model.desired import Device, EngineKind
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.validate.facts import EngineFacts
from llmgw_reconcile.validate.node_rules import check_engine
from tests.fakes.placed import A100, L40S, a_node, a_placement, gpu

GIB = 1 << 30
ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
SGLANG, LLAMA = EngineKind.SGLANG, EngineKind.LLAMA_CPP
WHOLE = Checkpoint("/m", weights=(Stored("BF16", GIB),))
Found = list[tuple[Severity, str, str]]


def found(checkpoint: Checkpoint | None, *cards: Gpu, needs_start: bool = True, **fields: Any) -> Found:
    placement = a_placement(*(cards or (gpu(0, A100),)), **fields)
    facts = EngineFacts("/x", checkpoint=checkpoint, needs_start=needs_start)
    return [(d.severity, d.code, d.message) for d in check_engine(placement, facts, a_node(*placement.gpus))]


def codes(checkpoint: Checkpoint | None, **fields: Any) -> list[str]:
    return [code for _, code, _ in found(checkpoint, **fields)]


# ---- files ----


@pytest.mark.parametrize("kind", DamageKind)
def test_damaged_files_block(kind: DamageKind) -> None:
    damaged = WHOLE._replace(damage=(Damage(kind, "/m: what is wrong"),))
    assert found(damaged) == [(ERROR, str(kind), "/m: what is wrong")]


@pytest.mark.parametrize("args", [("--tokenizer", "/t"), ("--tokenizer=org/t",), ("--skip-tokenizer-init",)])
def test_a_tokenizer_from_elsewhere_is_as_good(args: tuple[str, ...]) -> None:
    damaged = WHOLE._replace(damage=(Damage(DamageKind.TOKENIZER_MISSING, "none"),))
    assert codes(damaged, args=args) == []


def test_weights_that_are_not_loaded_may_be_missing() -> None:
    damaged = WHOLE._replace(damage=(Damage(DamageKind.WEIGHTS_MISSING, "none"),))
    assert codes(damaged, args=("--load-format", "dummy")) == []


# ---- splitting ----


@pytest.mark.parametrize(
    ("heads", "kv_heads", "size", "message"),
    [
        pytest.param(
            28,
            4,
            8,
            "tensor_parallel_size 8 does not divide the 28 attention heads and 4 key-value heads of the model; "
            "allowed: 1, 2, 4, 28",
            id="28-heads-by-8",
        ),
        pytest.param(
            40,
            40,
            3,
            "tensor_parallel_size 3 does not divide the 40 attention heads of the model; "
            "allowed: 1, 2, 4, 5, 8, 10, 20, 40",
            id="40-heads-by-3",
        ),
        pytest.param(
            48,
            8,
            6,
            "tensor_parallel_size 6 does not divide the 48 attention heads and 8 key-value heads of the model; "
            "allowed: 1, 2, 4, 8, 16, 24, 48",
            id="key-value-heads-that-cannot-be-repeated-evenly",
        ),
        pytest.param(64, 8, 16, None, id="key-value-heads-are-repeated"),
        pytest.param(71, 1, 71, None, id="one-key-value-head"),
        pytest.param(64, None, 4, None, id="key-value-heads-unknown"),
        pytest.param(None, 4, 3, None, id="heads-unknown"),
        pytest.param(28, 4, None, None, id="not-split"),
    ],
)
def test_heads_are_shared_evenly_by_tensor_parallel_ranks(
    heads: int | None, kv_heads: int | None, size: int | None, message: str | None
) -> None:
    checkpoint = WHOLE._replace(heads=heads, kv_heads=kv_heads)
    expected = [] if message is None else [(ERROR, "heads-not-divisible", message)]
    assert found(checkpoint, tensor_parallel_size=size) == expected


def test_heads_are_a_fact_that_cannot_be_accepted() -> None:
    checkpoint = WHOLE._replace(heads=28)
    assert codes(checkpoint, tensor_parallel_size=8, accept=("does-not-fit", "unknown-flag")) == ["heads-not-divisible"]


def test_a_pipeline_has_a_layer_for_each_rank() -> None:
    checkpoint = WHOLE._replace(layers=4)
    message = "pipeline_parallel_size 8 is more than the 4 layers of the model"
    assert found(checkpoint, pipeline_parallel_size=8) == [(ERROR, "too-few-layers", message)]
    assert found(checkpoint, pipeline_parallel_size=4) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"engine": SGLANG, "args": ("--ep-size", "7")},
            "160 experts cannot be shared evenly by 7 ranks; allowed: 1, 2, 4, 5, 8, 10, 16, 20, 32, 40",
            id="sglang",
        ),
        pytest.param({"engine": SGLANG, "args": ("--ep-size", "8")}, None, id="sglang-evenly"),
        pytest.param(
            {"args": ("--enable-expert-parallel", "--enable-eplb"), "tensor_parallel_size": 6},
            "160 experts cannot be shared evenly by 6 ranks; allowed: 1, 2, 4, 5, 8, 10, 16, 20, 32, 40",
            id="vllm-that-balances",
        ),
        pytest.param(
            {"args": ("--enable-expert-parallel",), "tensor_parallel_size": 6}, None, id="vllm-gives-some-one-more"
        ),
        pytest.param(
            {"args": ("--enable-expert-parallel", "--enable-eplb", "--eplb-config", "{}"), "tensor_parallel_size": 6},
            None,
            id="vllm-with-experts-of-its-own",
        ),
        pytest.param({"engine": SGLANG, "args": ("--ep-size", "auto")}, None, id="no-number"),
    ],
)
def test_experts_are_shared_evenly_where_the_engine_needs_it(fields: dict[str, Any], message: str | None) -> None:
    expected = [] if message is None else [(ERROR, "experts-not-divisible", message)]
    assert found(WHOLE._replace(experts=160), **fields) == expected


def test_llama_server_cuts_where_it_likes() -> None:
    checkpoint = WHOLE._replace(heads=28, layers=4)
    assert found(checkpoint, gpu(0, A100), gpu(1, A100), gpu(2, A100), engine=LLAMA, tensor_parallel_size=3) == []
    assert found(checkpoint, *(gpu(n, A100) for n in range(5)), engine=LLAMA, pipeline_parallel_size=5) == []


# ---- context ----

TOO_LONG = "max_model_len 9000 is longer than the model's context of 8192"


@pytest.mark.parametrize(
    ("fields", "severity"),
    [
        pytest.param({"max_model_len": 9000}, ERROR, id="vllm"),
        pytest.param({"args": ("--max-model-len=9000",)}, ERROR, id="vllm-in-args"),
        pytest.param({"max_model_len": 9000, "engine": SGLANG}, ERROR, id="sglang"),
        pytest.param({"max_model_len": 9000, "engine": LLAMA}, WARNING, id="llama-server-only-warns"),
        pytest.param({"max_model_len": 9000, "env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"}}, ERROR, id="not-allowed"),
        pytest.param({"max_model_len": 9000, "env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}}, None, id="allowed"),
        pytest.param({"max_model_len": 9000, "args": ("--hf-overrides", "{}")}, None, id="overridden"),
        pytest.param({"max_model_len": 9000, "args": ("--hf-overrides.rope_scaling", "x")}, None, id="overridden-key"),
        pytest.param({"max_model_len": 8192}, None, id="as-long-as-the-model"),
        pytest.param({}, None, id="left-to-the-model"),
    ],
)
def test_a_context_is_not_longer_than_the_models(fields: dict[str, Any], severity: Severity | None) -> None:
    expected = [] if severity is None else [(severity, "context-too-long", TOO_LONG)]
    assert found(WHOLE._replace(context=8192), **fields) == expected


def test_an_unknown_context_is_not_guessed() -> None:
    assert found(WHOLE, max_model_len=10**9) == []


# ---- memory ----

BIG = Checkpoint("/m", context=131072, cache=Cache(80, kv_heads=8, head_dim=128), weights=(Stored("BF16", 140 * GIB),))


def test_weights_that_have_no_room_block_with_the_arithmetic() -> None:
    assert found(BIG, gpu(0, A100), max_model_len=8192) == [
        (
            ERROR,
            "does-not-fit",
            (
                "its weights do not fit: 140.0 GiB of weights + 2.5 GiB KV cache for 8192 tokens "
                "of 73.6 GiB (80.0 GiB x 0.92) a GPU"
            ),
        )
    ]


def test_a_refusal_by_estimate_can_be_accepted() -> None:
    assert found(BIG, gpu(0, A100), accept=("does-not-fit",)) == []


def test_what_is_tight_is_told_with_the_arithmetic() -> None:
    cards = (gpu(0, A100), gpu(1, A100))
    assert found(BIG, *cards, tensor_parallel_size=2, max_model_len=32768) == [
        (
            WARNING,
            "tight-fit",
            (
                "little or no room is left on a GPU: 140.0 GiB of weights / 2 GPUs = 70.0 GiB + 5.0 GiB KV cache "
                "for 32768 tokens of 73.6 GiB (80.0 GiB x 0.92)"
            ),
        )
    ]


def test_what_fits_is_not_spoken_of() -> None:
    assert found(BIG, *(gpu(n, A100) for n in range(4)), tensor_parallel_size=4) == []


def test_llama_server_keeps_the_rest_in_the_node_and_is_only_warned_of() -> None:
    assert codes(BIG, engine=LLAMA) == ["tight-fit"]
    assert codes(BIG, engine=LLAMA, args=("--cache-type-k", "q8_0")) == ["tight-fit"]


@pytest.mark.parametrize(
    ("checkpoint", "fields", "expected"),
    [
        pytest.param(
            None,
            {},
            [(NOTE, "fit-unknown", "org/model is not on this node's disk: whether it fits was not estimated")],
            id="a-hub-id",
        ),
        pytest.param(
            None,
            {"tensor_parallel_size": 3},
            [
                (
                    WARNING,
                    "fit-unknown",
                    (
                        "org/model is not on this node's disk: whether it fits was not estimated, "
                        "nor whether it can be split so"
                    ),
                )
            ],
            id="a-hub-id-that-is-split",
        ),
        pytest.param(
            Checkpoint("/m"),
            {},
            [(NOTE, "fit-unknown", "whether it fits was not estimated: the size of its weights is not known: /m")],
            id="weights-unknown",
        ),
        pytest.param(None, {"device": Device.CPU}, [], id="on-the-cpu"),
    ],
)
def test_what_is_not_known_is_said(checkpoint: Checkpoint | None, fields: dict[str, Any], expected: Found) -> None:
    cards = () if fields.get("device") else (gpu(0, L40S),)
    placement = a_placement(*cards, **fields)
    facts = EngineFacts("/x", checkpoint=checkpoint, needs_start=True)
    assert [(d.severity, d.code, d.message) for d in check_engine(placement, facts, a_node(*cards))] == expected


def test_a_model_that_is_missing_is_not_called_unknown_as_well() -> None:
    facts = EngineFacts("/x", model_problem="/m: No such file or directory", needs_start=True)
    placement = a_placement(gpu(0, A100), model="/m")
    assert [d.code for d in check_engine(placement, facts, a_node(gpu(0, A100)))] == ["model-missing"]


def test_an_engine_that_runs_unchanged_is_not_judged() -> None:
    assert found(BIG._replace(heads=28), tensor_parallel_size=8, needs_start=False) == []
