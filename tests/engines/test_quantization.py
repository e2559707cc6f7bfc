"""The tables of what a method needs, spot-checked against what the engines themselves say."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.quantization import (
    FP8_METHODS,
    LOAD_TIME_BITS,
    NEEDS,
    STORED_METHODS,
    Need,
    method_of,
)
from llmgw_reconcile.model.checkpoint import OwnQuantization
from llmgw_reconcile.model.desired import EngineKind

VLLM, SGLANG, LLAMA = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMA_CPP


@pytest.mark.parametrize(
    ("method", "vllm", "sglang"),
    [
        ("fp8", (7, 5), (8, 0)),
        ("awq", (7, 5), (7, 5)),
        ("awq_marlin", (7, 5), (8, 0)),
        ("gptq", (6, 0), (6, 0)),
        ("compressed-tensors", (7, 0), (7, 0)),
        ("compressed-tensors/pack-quantized", (7, 5), (8, 0)),
        ("mxfp4", (8, 0), (8, 0)),
        ("modelopt_fp4", (7, 5), (8, 0)),
        ("mxfp8", (7, 5), (10, 0)),
    ],
)
def test_the_minimum_of_a_method_depends_on_the_engine(
    method: str, vllm: tuple[int, int], sglang: tuple[int, int]
) -> None:
    found = [NEEDS[kind].of(method, None) for kind in (VLLM, SGLANG)]
    assert [need.minimum for need in found if need is not None] == [vllm, sglang]


@pytest.mark.parametrize(
    ("method", "version", "minimum"),
    [
        ("fp8", "0.5.0", (8, 9)),
        ("fp8", "0.5.1", (8, 0)),
        ("fp8", "0.13.0", (8, 0)),
        ("fp8", "0.14.0", (7, 5)),
        ("compressed-tensors/pack-quantized", "0.13.0", (8, 0)),
        ("compressed-tensors/pack-quantized", "0.14.0rc1", (7, 5)),
        ("awq", "0.9.0", (7, 5)),
    ],
)
def test_the_minimum_of_a_method_depends_on_the_version(method: str, version: str, minimum: tuple[int, int]) -> None:
    need = NEEDS[VLLM].of(method, version)
    assert need is not None
    assert need.minimum == minimum


def test_native_arithmetic_is_another_question_than_the_minimum() -> None:
    assert NEEDS[VLLM].of("fp8", "0.33.0") == Need((7, 5), (8, 9), since="0.14")
    assert NEEDS[VLLM].of("modelopt_fp4", "0.33.0") == Need((7, 5), (10, 0))


def test_an_unknown_method_needs_what_is_not_known() -> None:
    assert NEEDS[VLLM].of("brand-new", None) is None
    assert NEEDS[LLAMA].of("fp8", None) is None


@pytest.mark.parametrize(
    ("own", "kind", "method"),
    [
        (OwnQuantization("fp8"), VLLM, "fp8"),
        (OwnQuantization("awq", "gemm"), VLLM, "awq"),
        (OwnQuantization("compressed-tensors", "float-quantized"), VLLM, "compressed-tensors/float-quantized"),
        (
            OwnQuantization("compressed-tensors", "float-quantized", weight_only=True),
            VLLM,
            "compressed-tensors/float-quantized:weights",
        ),
        (
            OwnQuantization("compressed-tensors", "pack-quantized", weight_only=True),
            VLLM,
            "compressed-tensors/pack-quantized",
        ),
        (OwnQuantization("compressed-tensors", "a-new-one"), VLLM, "compressed-tensors"),
        (OwnQuantization("modelopt", "FP8"), VLLM, "modelopt"),
        (OwnQuantization("modelopt", "FP8"), SGLANG, "modelopt_fp8"),
        (OwnQuantization("modelopt", "nvfp4"), SGLANG, "modelopt_fp4"),
        (OwnQuantization("modelopt", "W4A8_NEW"), VLLM, "modelopt"),
        (OwnQuantization("modelopt"), VLLM, "modelopt"),
    ],
)
def test_a_checkpoint_is_run_by_the_method_that_the_engine_names_so(
    own: OwnQuantization, kind: EngineKind, method: str
) -> None:
    assert method_of(own, kind) == method


def test_weights_that_stay_alone_in_fp8_lose_no_arithmetic() -> None:
    need = NEEDS[VLLM].of("compressed-tensors/float-quantized:weights", None)
    assert need is not None
    assert need.native is None


def test_every_method_of_the_other_tables_is_one_that_an_engine_knows() -> None:
    known = NEEDS[VLLM].by_method.keys() | NEEDS[SGLANG].by_method.keys()
    assert (FP8_METHODS | LOAD_TIME_BITS.keys() | STORED_METHODS) - known == set()
    assert "fp8" in FP8_METHODS
    assert "awq" not in FP8_METHODS
