"""vLLM: the command line and environment of `vllm serve`.

Flags as of vLLM 0.33.0; those that llmgw writes have been the same since 0.8.5.
"""

from __future__ import annotations

import math

from llmgw_reconcile.engines.kind import Argument, EngineFlag, Kind, Variables, is_python, passed_on
from llmgw_reconcile.model.desired import DEFAULT_HOST, ModelSpec
from llmgw_reconcile.model.launch import Placement

_MODULE = "vllm.entrypoints.openai.api_server"

_FLAGS = (
    EngineFlag("model", "--model", always=True),
    EngineFlag("host", "--host", always=True),
    EngineFlag("port", "--port", always=True),
    EngineFlag("served_model_name", "--served-model-name", always=True),
    EngineFlag("tensor_parallel_size", "--tensor-parallel-size", ("-tp",), always=True),
    EngineFlag("pipeline_parallel_size", "--pipeline-parallel-size", ("-pp",), always=True),
    EngineFlag("data_parallel_size", "--data-parallel-size", ("-dp",), always=True),
    EngineFlag("revision", "--revision"),
    EngineFlag("quantization", "--quantization", ("-q",)),
    EngineFlag("dtype", "--dtype"),
    EngineFlag("kv_cache_dtype", "--kv-cache-dtype"),
    EngineFlag("max_model_len", "--max-model-len"),
    EngineFlag("gpu_memory_utilization", "--gpu-memory-utilization", ("--device-memory-utilization",)),
    EngineFlag("api_key", "--api-key", always=True, variables=("VLLM_API_KEY",)),
    EngineFlag("gpus", "--device-ids", always=True),
)


def _command(placement: Placement) -> tuple[Argument, ...]:
    model = placement.spec.model
    entry = ("-m", _MODULE, "--model") if is_python(placement.executable) else ("serve",)
    return (
        placement.executable,
        *entry,
        model.model,
        "--host",
        model.host or DEFAULT_HOST,
        "--port",
        str(placement.port),
        "--served-model-name",
        *model.served_model_name,
        *passed_on(model, _FLAGS),
    )


def _environment(model: ModelSpec) -> Variables:
    """The wait of the API server for its engine core, 600 s by itself, lasts as long as our own budget.

    On the CPU nothing more is needed: the platform is chosen by the build that is installed.
    """
    planned: dict[str, str] = {
        "PYTHONUNBUFFERED": "1",
        "VLLM_ENGINE_READY_TIMEOUT_S": str(math.ceil(model.readiness.start_timeout)),
    }
    return planned if model.api_key is None else {**planned, "VLLM_API_KEY": model.api_key}


VLLM = Kind(
    title="vLLM",
    executable="vllm",
    flags=_FLAGS,
    command=_command,
    environment=_environment,
    inexpressible=lambda _: (),
    abbreviates=True,
    not_abbreviations=frozenset({"--device"}),  # until 0.10
    probe_timeout=5.0,
    loading_grace=5.0,  # it swallows SIGTERM while it loads
)
