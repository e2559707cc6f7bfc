"""A flag that llmgw plans is found in `args` in every spelling; its value is not shown."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llmgw_reconcile.engines.flags import clashing_flags, planned_variables, values_in_args
from llmgw_reconcile.engines.llama_cpp import LLAMA_CPP as LLAMA_SERVER
from llmgw_reconcile.model.desired import Device, EngineKind, FileArg, ModelSpec
from tests.fakes.placed import a_model

VLLM, SGLANG, LLAMA_CPP = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMA_CPP


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param(a_model(args=("--port", "9")), (0, "--port", "port"), id="in-two-words"),
        pytest.param(a_model(args=("--port=9",)), (0, "--port", "port"), id="with-an-equals-sign"),
        pytest.param(a_model(args=("-tp", "8")), (0, "-tp", "tensor_parallel_size"), id="short"),
        pytest.param(a_model(args=("-tp=8",)), (0, "-tp", "tensor_parallel_size"), id="short-with-an-equals-sign"),
        pytest.param(
            a_model(args=("--served_model_name", "x")),
            (0, "--served_model_name", "served_model_name"),
            id="with-underscores",
        ),
        pytest.param(
            a_model(args=("--enforce-eager", "--tensor-par", "2")),
            (1, "--tensor-par", "tensor_parallel_size"),
            id="cut-short",
        ),
        pytest.param(a_model(args=("--model=m",)), (0, "--model", "model"), id="the-model-itself"),
        pytest.param(a_model(args=("--device-ids", "1")), (0, "--device-ids", "gpus"), id="another-choice-of-gpus"),
        pytest.param(a_model(args=("--api-key=s3cret",)), (0, "--api-key", "api_key"), id="a-key-without-its-value"),
        pytest.param(
            a_model(quantization="fp8", args=("-qawq",)), (0, "-q", "quantization"), id="short-with-the-value-glued-on"
        ),
        pytest.param(
            a_model(gpu_memory_utilization=0.5, args=("--device-memory-utilization", "0.9")),
            (0, "--device-memory-utilization", "gpu_memory_utilization"),
            id="an-alias",
        ),
        pytest.param(
            a_model(engine=SGLANG, args=("--tensor-parallel-size", "2")),
            (0, "--tensor-parallel-size", "tensor_parallel_size"),
            id="sglang-alias",
        ),
        pytest.param(
            a_model(engine=SGLANG, args=("--tp", "2")), (0, "--tp", "tensor_parallel_size"), id="sglang-short"
        ),
        pytest.param(a_model(engine=SGLANG, args=("--model", "m")), (0, "--model", "model"), id="sglang-model"),
        pytest.param(
            a_model(engine=SGLANG, device=Device.CPU, args=("--device", "cuda")),
            (0, "--device", "device"),
            id="sglang-device-when-it-is-planned",
        ),
        pytest.param(a_model(engine=LLAMA_CPP, args=("-a", "x")), (0, "-a", "served_model_name"), id="llama-alias"),
        pytest.param(
            a_model(engine=LLAMA_CPP, max_model_len=256, args=("-c", "1")),
            (0, "-c", "max_model_len"),
            id="llama-context",
        ),
        pytest.param(
            a_model(engine=LLAMA_CPP, pipeline_parallel_size=2, args=("-sm", "row")),
            (0, "-sm", "pipeline_parallel_size"),
            id="llama-names-the-field-that-was-given",
        ),
        pytest.param(a_model(engine=LLAMA_CPP, args=("-hf", "o/m")), (0, "-hf", "model"), id="llama-hub"),
    ],
)
def test_a_planned_flag_in_args_clashes(model: ModelSpec, expected: tuple[int, str, str]) -> None:
    assert [(found.position, found.flag, found.field) for found in clashing_flags(model)] == [expected]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(a_model(args=("--enable-prefix-caching",)), id="an-unrelated-flag"),
        pytest.param(a_model(args=("--max-model-len", "8192")), id="a-field-that-the-file-leaves-out"),
        pytest.param(a_model(args=("--data-parallel-size-local", "1")), id="a-longer-flag"),
        pytest.param(a_model(args=("--kv-transfer-config", '{"port": 9}', "-1", "-", "--")), id="values-and-dashes"),
        pytest.param(a_model(gpu_memory_utilization=0.5, args=("--device", "cuda")), id="a-flag-that-only-looks-cut"),
        pytest.param(a_model(args=("port", FileArg("/--port", ""))), id="no-flag-at-all"),
        pytest.param(
            a_model(engine=LLAMA_CPP, args=("--por", "1", "-cb", "--model-draft", "m")), id="llama-cuts-nothing"
        ),
        pytest.param(a_model(engine=LLAMA_CPP, args=("--device", "CUDA0")), id="llama-device-when-it-is-not-planned"),
        pytest.param(a_model(engine=LLAMA_CPP, args=("--api-key-file", "/k")), id="llama-key-file"),
    ],
)
def test_what_llmgw_does_not_plan_passes(model: ModelSpec) -> None:
    assert clashing_flags(model) == ()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--quantization", "fp8"), ("fp8",)),
        (("--quantization=awq",), ("awq",)),
        (("-q", "gptq"), ("gptq",)),
        (("-qfp8",), ("fp8",)),
        (("--quant", "fp8"), ("fp8",)),
        (("--quantization",), ()),
        (("--enforce-eager",), ()),
    ],
)
def test_the_value_of_a_flag_is_read_in_every_spelling(args: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert values_in_args(a_model(args=args), "quantization") == expected


def test_variables_that_say_the_same_are_planned_with_their_flags() -> None:
    assert planned_variables(a_model()) == {"VLLM_API_KEY": "api_key"}
    llama = planned_variables(a_model(engine=LLAMA_CPP, max_model_len=256))
    assert llama["LLAMA_ARG_CTX_SIZE"] == "max_model_len"
    assert llama["LLAMA_ARG_HOST"] == "host"
    assert "LLAMA_ARG_SPLIT_MODE" not in llama


@pytest.mark.real_engine
def test_the_real_llama_server_knows_every_flag_and_variable() -> None:
    beside = Path(sys.executable).with_name("llama-server-vulkan")
    binary = str(beside) if beside.exists() else shutil.which("llama-server")
    if binary is None:
        pytest.skip("no llama-server is installed")
    done = subprocess.run([binary, "--help"], capture_output=True, text=True, timeout=60, check=True)
    told = set(done.stdout.replace(",", " ").replace(")", " ").split())
    assert len(told) > 500
    flags = {spelling for flag in LLAMA_SERVER.flags for spelling in (flag.flag, *flag.also)}
    variables = {variable for flag in LLAMA_SERVER.flags for variable in flag.variables}
    assert flags - told == set()
    assert variables - told == set()
