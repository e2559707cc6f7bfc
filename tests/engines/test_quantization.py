"""The tables of what a method needs, spot-checked against what the engines themselves say."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.quantization import FP4_METHODS, FP8_METHODS, MINIMUMS
from llmgw_reconcile.model.desired import EngineKind

VLLM, SGLANG = MINIMUMS[EngineKind.VLLM].by_method, MINIMUMS[EngineKind.SGLANG].by_method


@pytest.mark.parametrize(
    ("method", "vllm", "sglang"),
    [
        ("fp8", (7, 5), (8, 0)),
        ("awq", (7, 5), (7, 5)),
        ("awq_marlin", (7, 5), (8, 0)),
        ("gptq", (6, 0), (6, 0)),
        ("compressed-tensors", (7, 0), (7, 0)),
        ("mxfp4", (8, 0), (8, 0)),
        ("modelopt_fp4", (7, 5), (8, 0)),
        ("mxfp8", (7, 5), (10, 0)),
    ],
)
def test_the_minimum_of_a_method_depends_on_the_engine(
    method: str, vllm: tuple[int, int], sglang: tuple[int, int]
) -> None:
    assert (VLLM[method], SGLANG[method]) == (vllm, sglang)


def test_every_low_precision_method_is_one_that_an_engine_knows() -> None:
    assert (FP8_METHODS | FP4_METHODS) - (VLLM.keys() | SGLANG.keys()) == set()
