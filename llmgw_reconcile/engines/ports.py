"""An engine to the ports that it opens on its node: the one it serves on, and those that nobody writes down.

Facts: vLLM 0.33 (config/parallel.py, envs.py) and SGLang 0.5.23 (server_args.py, data_parallel_controller.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from llmgw_reconcile.engines.arguments import argument_value, mentions
from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.vllm import RPC_PORT_OFFSET
from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.model.launch import PortNeeds, ReadyWhen
from llmgw_reconcile.model.spec import engine_id

# Where the ranks of a group meet: below the ports that SGLang draws at random (22000-29999) and the ephemeral range,
# above what nodes of such a cluster have running (NFS over RDMA, 20049).
MEETING_PORTS = (20100, 21986)

ATTENTION_DATA_PARALLEL = (*range(1, 7), 13)  # from the port where ranks meet
ATTENTION_ON_ONE_NODE = (13, *range(233, 240))  # from the serving port
GRPC_OFFSET = 10000


class HiddenPort(NamedTuple):
    """One port beside the serving one."""

    port: int  # itself, or counted from the serving port
    from_serving: bool
    what: str  # what it is for


def hidden_ports(model: ModelSpec, meeting_port: int | None = None) -> tuple[HiddenPort, ...]:
    """What an engine of that model opens beside its serving port, as far as the file makes it.

    `meeting_port` is a group's, None on nodes that are not its head. Ports that engines draw at random are left out.
    """
    if model.engine is EngineKind.LLAMA_CPP:
        return ()
    own = _of_vllm(model) if model.engine is EngineKind.VLLM else _of_sglang(model)
    return (*(() if meeting_port is None else _of_meeting(model, meeting_port)), *own)


def port_needs(model: ModelSpec, rank: int, meeting_port: int | None) -> PortNeeds:
    """The same as numbers, for whoever gives out ports; `meeting_port` is the group's, whatever the rank."""
    hidden = hidden_ports(model, meeting_port if rank == 0 else None)
    return PortNeeds(
        listens=serves_on(model, rank),
        offsets=tuple(one.port for one in hidden if one.from_serving),
        fixed=tuple(one.port for one in hidden if not one.from_serving),
    )


def serves_on(model: ModelSpec, rank: int) -> bool:
    """Whether the engine opens its serving port on the node of that rank."""
    return rank == 0 or KINDS[model.engine].followers_are_ready is not ReadyWhen.LIVES


def meeting_ports(models: Iterable[ModelSpec]) -> dict[str, int]:
    """Engine -> the port of its head where its ranks meet, for every engine over several nodes.

    The nodes of a group derive it each for itself, from files of which only the groups that they share need be equal:
    so it follows from the engine's name, and only groups of the very same nodes step aside for each other.
    """
    ports: dict[str, int] = {}
    taken: dict[tuple[str, ...], set[int]] = {}
    for model in sorted((one for one in models if one.is_group), key=lambda one: one.name):
        others = taken.setdefault(tuple(node.name for node in model.nodes), set())
        for replica in range(model.replicas):
            engine = engine_id(model.name, replica)
            ports[engine] = _first_free(model, engine, others)
            others.update(_block(model, ports[engine]))
    return ports


def _first_free(model: ModelSpec, engine: str, taken: set[int]) -> int:
    """The first port from one on that the name decides; where all are taken that one, for a rule to refuse."""
    first, last = MEETING_PORTS
    count = last - first + 1
    start = zlib.crc32(engine.encode())
    candidates = (first + (start + step) % count for step in range(count))
    return next((port for port in candidates if taken.isdisjoint(_block(model, port))), first + start % count)


def _block(model: ModelSpec, port: int) -> set[int]:
    return {port, *(one.port for one in _of_meeting(model, port))}


def _of_meeting(model: ModelSpec, port: int) -> Iterator[HiddenPort]:
    """On the head of a group."""
    yield HiddenPort(port, from_serving=False, what="where its ranks meet")
    if model.engine is EngineKind.VLLM and (model.data_parallel_size or 1) > 1:
        yield HiddenPort(port + RPC_PORT_OFFSET, from_serving=False, what="data-parallel RPC")
    if model.engine is EngineKind.SGLANG and _divides_attention(model):
        for offset in ATTENTION_DATA_PARALLEL:
            yield HiddenPort(port + offset, from_serving=False, what="data-parallel attention")


def _of_vllm(model: ModelSpec) -> Iterator[HiddenPort]:
    copies = model.data_parallel_size or 1
    if not model.is_group and any(argument_value(model, flag) is not None for flag in _REMOTE_COPIES):
        yield from _given(model, "--data-parallel-rpc-port", default=29550)
    if argument_value(model, "--data-parallel-multi-port-external-lb") is not None:
        yield from _given(model, "--data-parallel-supervisor-port", default=9256)
        for copy in range(1, _number(argument_value(model, "--data-parallel-size-local")) or copies):
            yield HiddenPort(copy, from_serving=True, what=f"data-parallel copy {copy}")
    yield from _given(model, "--master-port")
    yield from _given(model, "--grpc-port")
    if mentions(model, "nixlconnector"):
        yield from _named(model, "VLLM_NIXL_SIDE_CHANNEL_PORT", default=5600, count=copies)
    if mentions(model, "mooncakeconnector"):
        yield from _named(model, "VLLM_MOONCAKE_BOOTSTRAP_PORT", default=8998)
    for variable in ("VLLM_EC_SIDE_CHANNEL_PORT", "VLLM_P2P_SIDE_CHANNEL_PORT"):
        yield from _named(model, variable)
    yield from _named(model, "VLLM_DP_MASTER_PORT", count=10)


def _of_sglang(model: ModelSpec) -> Iterator[HiddenPort]:
    if _divides_attention(model) and not model.is_group:
        for offset in ATTENTION_ON_ONE_NODE:
            yield HiddenPort(offset, from_serving=True, what="data-parallel attention")
    if argument_value(model, "--disaggregation-mode") == "prefill":
        yield from _given(model, "--disaggregation-bootstrap-port", default=8998)
    for flag in ("--engine-info-bootstrap-port", "--nccl-port"):
        yield from _given(model, flag)
    for variable in ("SGLANG_TCP_STORE_PORT", "SGLANG_GRPC_PORT"):
        yield from _named(model, variable)
    if argument_value(model, "--grpc-mode") is not None and "SGLANG_GRPC_PORT" not in model.env:
        yield HiddenPort(GRPC_OFFSET, from_serving=True, what="gRPC")


_REMOTE_COPIES = (
    "--data-parallel-address",
    "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb",
    "--data-parallel-rank",
    "--data-parallel-rpc-port",
    "--data-parallel-size-local",
    "--data-parallel-start-rank",
    "--enable-elastic-ep",
)


def _divides_attention(model: ModelSpec) -> bool:
    """Whether SGLang talks between its copies of the attention over TCP, on one node too."""
    parts = _number(argument_value(model, "--attn-dp-size"))
    return argument_value(model, "--enable-dp-attention") is not None or (parts or 1) > 1


def _given(model: ModelSpec, flag: str, *, default: int | None = None) -> Iterator[HiddenPort]:
    """The port of a flag in `args`."""
    value = argument_value(model, flag)
    port = default if value is None else _number(value)
    if port:  # 0 is any that is free
        yield HiddenPort(port, from_serving=False, what=flag)


def _named(model: ModelSpec, variable: str, *, default: int | None = None, count: int = 1) -> Iterator[HiddenPort]:
    """The port of a variable in `env`, and those after it."""
    value = model.env.get(variable)
    first = default if value is None else _number(value) if isinstance(value, str) else None
    for port in range(first, first + count) if first else ():
        yield HiddenPort(port, from_serving=False, what=variable)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
