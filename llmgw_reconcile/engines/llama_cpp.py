"""llama.cpp: the command line and environment of `llama-server`.

Flags as of build 10434. It takes them in full only, and with a separate value.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_reconcile.engines.kind import Argument, EngineFlag, Inexpressible, Kind, Variables
from llmgw_reconcile.model.desired import DEFAULT_HOST, Device, ModelSpec
from llmgw_reconcile.model.launch import Placement

_FLAGS = (
    EngineFlag(
        "model",
        "-m",
        ("--model", "-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo"),
        always=True,
        variables=("LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO", "LLAMA_ARG_MODEL_URL", "LLAMA_ARG_DOCKER_REPO"),
    ),
    EngineFlag("host", "--host", always=True, variables=("LLAMA_ARG_HOST",)),
    EngineFlag("port", "--port", always=True, variables=("LLAMA_ARG_PORT",)),
    EngineFlag("served_model_name", "--alias", ("-a",), always=True, variables=("LLAMA_ARG_ALIAS",)),
    EngineFlag("device", "--device", ("-dev",), variables=("LLAMA_ARG_DEVICE",)),
    EngineFlag("tensor_parallel_size", "--split-mode", ("-sm",), variables=("LLAMA_ARG_SPLIT_MODE",)),
    EngineFlag("pipeline_parallel_size", "--split-mode", ("-sm",), variables=("LLAMA_ARG_SPLIT_MODE",)),
    EngineFlag("max_model_len", "--ctx-size", ("-c",), variables=("LLAMA_ARG_CTX_SIZE",)),
    EngineFlag("api_key", "--api-key", always=True, variables=("LLAMA_API_KEY",)),
)

# Fields of the other engines -> what to write instead.
_INSTEAD = {
    "revision": "download that revision, and name its file as `model`",
    "quantization": "name a GGUF file of that quantization, or append it to the hub id (`:Q4_K_M`)",
    "dtype": "name a GGUF file of that type as `model`",
    "kv_cache_dtype": "write `args: [--cache-type-k, TYPE, --cache-type-v, TYPE]`",
    "gpu_memory_utilization": "write `args: [--fit-target, MIB]` for the memory to leave free",
}


def _command(placement: Placement) -> tuple[Argument, ...]:
    model = placement.spec.model
    return (
        placement.executable,
        "-m" if model.model.startswith("/") else "-hf",
        model.model,
        "--host",
        model.host or DEFAULT_HOST,
        "--port",
        str(placement.port),
        "--alias",
        ",".join(model.served_model_name),
        *_device(model),
        *(() if model.max_model_len is None else ("--ctx-size", str(model.max_model_len))),
    )


def _device(model: ModelSpec) -> tuple[str, ...]:
    """Rows are split to compute in parallel, layers to compute one after the other."""
    if model.device is Device.CPU:
        return ("--device", "none")
    if (model.tensor_parallel_size or 1) > 1:
        return ("--split-mode", "row")
    if (model.pipeline_parallel_size or 1) > 1:
        return ("--split-mode", "layer")
    return ()


def _environment(model: ModelSpec) -> Variables:
    return {} if model.api_key is None else {"LLAMA_API_KEY": model.api_key}


def _inexpressible(model: ModelSpec) -> Iterator[Inexpressible]:
    for field, instead in _INSTEAD.items():
        if (value := getattr(model, field)) is not None:
            yield Inexpressible(field, f"it has no words for {value}", instead)
    tensor, pipeline = model.tensor_parallel_size or 1, model.pipeline_parallel_size or 1
    if tensor > 1 and pipeline > 1:
        yield Inexpressible("pipeline_parallel_size", "it splits a model by rows or by layers", "keep one of the two")
    if model.device is Device.CPU and tensor * pipeline > 1:
        field = "tensor_parallel_size" if tensor > 1 else "pipeline_parallel_size"
        yield Inexpressible(field, "on the CPU it has nothing to split over", "leave it out")
    if model.is_group:
        yield Inexpressible("nodes", "it runs on one node", "name the one node where it shall run")
    if (model.data_parallel_size or 1) > 1:
        yield Inexpressible("data_parallel_size", "it has no data parallelism", "write `replicas`")
    for name in model.served_model_name:
        if "," in name:
            yield Inexpressible("served_model_name", f"it splits {name} at the comma", "name it without a comma")


LLAMA_CPP = Kind(
    title="llama-server",
    executable="llama-server",
    flags=_FLAGS,
    command=_command,
    environment=_environment,
    inexpressible=_inexpressible,
    abbreviates=False,
    not_abbreviations=frozenset(),
    probe_timeout=5.0,
    loading_grace=5.0,
)
