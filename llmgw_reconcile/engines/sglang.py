"""SGLang: the command line and environment of `sglang serve`.

Flags as of SGLang 0.5.23.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmgw_reconcile.engines.arguments import argument_value
from llmgw_reconcile.engines.kind import Argument, EngineFlag, Inexpressible, Kind, Variables, is_python, passed_on
from llmgw_reconcile.model.desired import DEFAULT_HOST, Device, ModelSpec
from llmgw_reconcile.model.launch import Placement, ReadyWhen

_MODULE = "sglang.launch_server"

_FLAGS = (
    EngineFlag("model", "--model-path", ("--model",), always=True),
    EngineFlag("host", "--host", always=True),
    EngineFlag("port", "--port", always=True),
    EngineFlag("served_model_name", "--served-model-name", always=True),
    EngineFlag("device", "--device"),
    EngineFlag("tensor_parallel_size", "--tp-size", ("--tensor-parallel-size",), always=True),
    EngineFlag("pipeline_parallel_size", "--pp-size", ("--pipeline-parallel-size",), always=True),
    EngineFlag("data_parallel_size", "--dp-size", ("--data-parallel-size",), always=True),
    EngineFlag("revision", "--revision"),
    EngineFlag("quantization", "--quantization"),
    EngineFlag("dtype", "--dtype"),
    EngineFlag("kv_cache_dtype", "--kv-cache-dtype"),
    EngineFlag("max_model_len", "--context-length"),
    EngineFlag("gpu_memory_utilization", "--mem-fraction-static"),
    EngineFlag("api_key", "--api-key", always=True),
    EngineFlag("gpus", "--base-gpu-id", ("--gpu-id-step",), always=True),
    EngineFlag("nodes", "--nnodes", ("--node-rank", "--dist-init-addr", "--nccl-init-addr")),
)


def _command(placement: Placement) -> tuple[Argument, ...]:
    """The key stands on the command line, since there is no variable for it."""
    model = placement.spec.model
    entry = ("-m", _MODULE) if is_python(placement.executable) else ("serve",)
    return (
        placement.executable,
        *entry,
        "--model-path",
        model.model,
        "--host",
        model.host or DEFAULT_HOST,
        "--port",
        str(placement.port),
        "--served-model-name",
        model.served_model_name[0],
        *(("--device", "cpu") if model.device is Device.CPU else ()),
        *passed_on(model, _FLAGS),
        *(() if model.api_key is None else ("--api-key", model.api_key)),
        *_group(placement),
    )


def _group(placement: Placement) -> tuple[str, ...]:
    if (member := placement.member) is None:
        return ()
    head = f"[{member.head}]" if ":" in member.head else member.head
    rank = ("--nnodes", str(member.size), "--node-rank", str(member.rank))
    return (*rank, "--dist-init-addr", f"{head}:{member.port}")


def _environment(model: ModelSpec) -> Variables:
    """Its warm-up, which may compile kernels, kills the server after 600 s unless it is told our own budget.

    The CPU kernels are used only when SGLANG_USE_CPU_ENGINE asks for them (SGLang's page on CPU servers).
    """
    planned = {
        "PYTHONUNBUFFERED": "1",
        "SGLANG_WARMUP_TIMEOUT": str(math.ceil(model.readiness.start_timeout)),
    }
    return planned if model.device is not Device.CPU else {**planned, "SGLANG_USE_CPU_ENGINE": "1"}


def _inexpressible(model: ModelSpec) -> Iterator[Inexpressible]:
    if len(model.served_model_name) > 1:
        names = ", ".join(model.served_model_name)
        yield Inexpressible("served_model_name", f"it serves one name, not {names}", "name one; it answers to any")
    if model.kv_cache_dtype == "fp8":
        yield Inexpressible("kv_cache_dtype", "it has no plain fp8", "write fp8_e4m3 or fp8_e5m2")
    if model.is_group and (copies := model.data_parallel_size or 1) > 1:
        instead = f"leave it out, and write `args: [--attn-dp-size, {copies}]` where attention may be divided so"
        yield Inexpressible("data_parallel_size", "it has no copies of a model over several nodes", instead)
    if model.is_group and argument_value(model, "--use-ray") is not None:
        yield Inexpressible("args", "--use-ray: then Ray starts its nodes, and not llmgw", "leave it out, or `nodes`")


SGLANG = Kind(
    title="SGLang",
    executable="sglang",
    flags=_FLAGS,
    command=_command,
    environment=_environment,
    inexpressible=_inexpressible,
    abbreviates=True,
    not_abbreviations=frozenset(),
    probe_timeout=21.0,  # /health generates a token, and answers 503 itself after 20 s
    loading_grace=5.0,  # a leader that dies at once may leave children behind
    followers_are_ready=ReadyWhen.HEALTHY,  # they answer /health, and have no model list
    address_variable="SGLANG_HOST_IP",
)
