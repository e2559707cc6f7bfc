"""vLLM: the command line and environment of `vllm serve`.

Flags as of vLLM 0.33.0; those that llmgw writes have been the same since 0.8.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmgw_reconcile.engines.arguments import argument_value
from llmgw_reconcile.engines.kind import Argument, EngineFlag, Inexpressible, Kind, Variables, is_python, passed_on
from llmgw_reconcile.model.desired import DEFAULT_HOST, ModelSpec
from llmgw_reconcile.model.launch import Placement, ReadyWhen

_MODULE = "vllm.entrypoints.openai.api_server"
_MODULE_OF_GROUPS = "vllm.entrypoints.cli.main"  # the older module knows no --headless
RPC_PORT_OFFSET = 1  # of a group's data-parallel RPC, from the port where its ranks meet

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
    EngineFlag(
        "nodes",
        "--nnodes",
        ("-n", "--node-rank", "-r", "--master-addr", "--master-port", "--headless", "--data-parallel-rpc-port"),
    ),
)


def _command(placement: Placement) -> tuple[Argument, ...]:
    model = placement.spec.model
    return (
        placement.executable,
        *_entry(placement),
        model.model,
        *(() if placement.port is None else ("--host", model.host or DEFAULT_HOST, "--port", str(placement.port))),
        "--served-model-name",
        *model.served_model_name,
        *passed_on(model, _FLAGS),
        *_group(placement),
    )


def _entry(placement: Placement) -> tuple[str, ...]:
    if not is_python(placement.executable):
        return ("serve",)
    return ("-m", _MODULE, "--model") if placement.member is None else ("-m", _MODULE_OF_GROUPS, "serve")


def _group(placement: Placement) -> tuple[str, ...]:
    """What differs between the nodes of a group is the rank alone, and that only rank 0 serves."""
    if (member := placement.member) is None:
        return ()
    meeting = ("--master-addr", member.head, "--master-port", str(member.port))
    rpc = ("--data-parallel-rpc-port", str(member.port + RPC_PORT_OFFSET))
    return (
        *("--nnodes", str(member.size), "--node-rank", str(member.rank), *meeting),
        *(rpc if (placement.spec.model.data_parallel_size or 1) > 1 else ()),
        *(() if member.is_head else ("--headless",)),
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


def _inexpressible(model: ModelSpec) -> Iterator[Inexpressible]:
    if not model.is_group:
        return
    one = "it runs over several nodes by multiprocessing only"
    for flag in ("--distributed-executor-backend", "--data-parallel-backend"):
        if argument_value(model, flag) == "ray":
            yield Inexpressible("args", f"{flag} ray: {one}", "leave the flag out, or `nodes`")
    if argument_value(model, "--api-server-count") is not None:
        problem = "--api-server-count: its nodes without an API refuse it"
        yield Inexpressible("args", problem, "leave it out")
    copy = (model.tensor_parallel_size or 1) * (model.pipeline_parallel_size or 1)
    here, copies = model.gpus_per_replica, model.data_parallel_size or 1
    if copies > 1 and here and here % copy and copy % here:
        problem = f"a copy of {copy} GPUs neither divides the {here} of a node nor spans whole nodes"
        yield Inexpressible("data_parallel_size", problem, "choose sizes of which one divides the other")


VLLM = Kind(
    title="vLLM",
    executable="vllm",
    flags=_FLAGS,
    command=_command,
    environment=_environment,
    inexpressible=_inexpressible,
    abbreviates=True,
    not_abbreviations=frozenset({"--device"}),  # until 0.10
    probe_timeout=5.0,
    loading_grace=5.0,  # it swallows SIGTERM while it loads
    followers_are_ready=ReadyWhen.LIVES,  # --headless opens no port
    address_variable="VLLM_HOST_IP",
)
