"""Values of flags as values of fields."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.field_values import field_value
from llmgw_reconcile.model.desired import EngineKind

VLLM, SGLANG, LLAMA_CPP = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMA_CPP


@pytest.mark.parametrize(
    ("field", "values", "kind", "expected"),
    [
        pytest.param("port", ("8000",), VLLM, 8000, id="a-number"),
        pytest.param("port", ("0",), VLLM, None, id="no-port"),
        pytest.param("tensor_parallel_size", ("auto",), SGLANG, None, id="a-word-for-a-number"),
        pytest.param("max_model_len", ("32768",), VLLM, 32768, id="a-length"),
        pytest.param("max_model_len", ("32k",), VLLM, 32000, id="thousands"),
        pytest.param("max_model_len", ("32K",), VLLM, 32768, id="vllm-counts-K-in-1024"),
        pytest.param("max_model_len", ("25.6k",), VLLM, 25600, id="with-a-fraction"),
        pytest.param("max_model_len", ("32Ki",), SGLANG, 32768, id="sglang-writes-Ki"),
        pytest.param("max_model_len", ("auto",), VLLM, None, id="a-length-that-no-field-says"),
        pytest.param("max_model_len", ("0",), LLAMA_CPP, None, id="llama-server-means-the-models-own"),
        pytest.param("gpu_memory_utilization", ("0.92",), VLLM, 0.92, id="a-share"),
        pytest.param("gpu_memory_utilization", (".9",), VLLM, 0.9, id="without-its-zero"),
        pytest.param("gpu_memory_utilization", ("1",), VLLM, 1.0, id="all-of-it"),
        pytest.param("gpu_memory_utilization", ("1.5",), VLLM, None, id="more-than-there-is"),
        pytest.param("served_model_name", ("a",), VLLM, "a", id="one-name"),
        pytest.param("served_model_name", ("a", "b"), VLLM, ["a", "b"], id="several-names"),
        pytest.param("served_model_name", ("a,b",), LLAMA_CPP, ["a", "b"], id="llama-server-writes-commas"),
        pytest.param("served_model_name", ("a,b",), VLLM, "a,b", id="vllm-does-not"),
        pytest.param("dtype", ("bfloat16",), VLLM, "bfloat16", id="a-word"),
        pytest.param("nodes", ("2",), VLLM, None, id="a-field-that-is-not-read"),
    ],
)
def test_a_value_is_what_the_engine_takes_it_for(field: str, values: tuple, kind: EngineKind, expected: object) -> None:
    assert field_value(field, values, kind) == expected
