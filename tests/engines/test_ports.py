"""The ports that an engine opens beside the one it serves on, and where the ranks of a group meet."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.engines.ports import MEETING_PORTS, hidden_ports, meeting_ports, port_needs
from llmgw_reconcile.model.desired import EngineKind, GroupNode
from llmgw_reconcile.model.launch import PortNeeds
from tests.fakes.placed import a_model

SGLANG, LLAMA_CPP = EngineKind.SGLANG, EngineKind.LLAMA_CPP
A_AND_B = (GroupNode("a", "a"), GroupNode("b", "b"))
NIXL = ("--kv-transfer-config", '{"kv_connector": "NixlConnector"}')


def hidden(meeting: int | None = None, **fields: Any) -> list[tuple[int | str, str]]:
    """Port and purpose; `+233` is counted from the serving port."""
    found = hidden_ports(a_model(**fields), meeting)
    return [(f"+{one.port}" if one.from_serving else one.port, one.what) for one in found]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, [], id="vllm-on-one-node"),
        pytest.param({"data_parallel_size": 4}, [], id="vllm-keeps-local-copies-off-the-network"),
        pytest.param(
            {"data_parallel_size": 4, "args": ("--data-parallel-size-local", "2")},
            [(29550, "--data-parallel-rpc-port")],
            id="vllm-with-copies-elsewhere",
        ),
        pytest.param(
            {"args": ("--data_parallel_address=10.0.0.1", "--data-parallel-rpc-port=29600")},
            [(29600, "--data-parallel-rpc-port")],
            id="vllm-with-a-port-for-them",
        ),
        pytest.param(
            {"data_parallel_size": 3, "args": ("--data-parallel-multi-port-external-lb",)},
            [(9256, "--data-parallel-supervisor-port"), ("+1", "data-parallel copy 1"), ("+2", "data-parallel copy 2")],
            id="vllm-with-a-server-for-each-copy",
        ),
        pytest.param(
            {"args": ("--grpc-port", "50051", "--master-port", "29501")},
            [(29501, "--master-port"), (50051, "--grpc-port")],
            id="vllm-ports-in-args",
        ),
        pytest.param({"args": NIXL}, [(5600, "VLLM_NIXL_SIDE_CHANNEL_PORT")], id="nixl"),
        pytest.param(
            {"args": NIXL, "data_parallel_size": 2, "env": {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5700"}},
            [(5700, "VLLM_NIXL_SIDE_CHANNEL_PORT"), (5701, "VLLM_NIXL_SIDE_CHANNEL_PORT")],
            id="nixl-has-one-for-each-copy",
        ),
        pytest.param({"args": ("--grpc-port", "0")}, [], id="zero-is-any-that-is-free"),
        pytest.param({"engine": SGLANG, "data_parallel_size": 2}, [], id="sglang-keeps-local-copies-off-the-network"),
        pytest.param(
            {"engine": SGLANG, "args": ("--enable-dp-attention",)},
            [(offset, "data-parallel attention") for offset in ("+13", *(f"+{n}" for n in range(233, 240)))],
            id="sglang-with-divided-attention",
        ),
        pytest.param({"engine": SGLANG, "args": ("--attn-dp-size", "1")}, [], id="sglang-with-undivided-attention"),
        pytest.param(
            {"engine": SGLANG, "args": ("--disaggregation-mode", "prefill")},
            [(8998, "--disaggregation-bootstrap-port")],
            id="sglang-prefill",
        ),
        pytest.param({"engine": SGLANG, "args": ("--disaggregation-mode", "decode")}, [], id="sglang-decode"),
        pytest.param({"engine": SGLANG, "args": ("--grpc-mode",)}, [("+10000", "gRPC")], id="sglang-grpc"),
        pytest.param(
            {"engine": SGLANG, "args": ("--grpc-mode",), "env": {"SGLANG_GRPC_PORT": "9001"}},
            [(9001, "SGLANG_GRPC_PORT")],
            id="sglang-grpc-where-the-file-says",
        ),
        pytest.param({"engine": LLAMA_CPP, "args": ("--grpc-port", "9")}, [], id="llama-server-has-none"),
    ],
)
def test_an_engine_opens_these_ports_besides(fields: dict[str, Any], expected: list[tuple[int | str, str]]) -> None:
    assert hidden(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, [20500], id="vllm"),
        pytest.param({"data_parallel_size": 2}, [20500, 20501], id="vllm-with-copies"),
        pytest.param({"engine": SGLANG}, [20500], id="sglang"),
        pytest.param(
            {"engine": SGLANG, "args": ("--attn-dp-size", "2")},
            [20500, 20501, 20502, 20503, 20504, 20505, 20506, 20513],
            id="sglang-with-divided-attention",
        ),
    ],
)
def test_the_head_of_a_group_opens_these(fields: dict[str, Any], expected: list[int]) -> None:
    assert [port for port, _ in hidden(20500, nodes=A_AND_B, **fields)] == expected
    assert hidden(None, nodes=A_AND_B, **fields) == []


@pytest.mark.parametrize(
    ("engine", "rank", "expected"),
    [
        pytest.param(EngineKind.VLLM, 0, PortNeeds(fixed=(20500,)), id="the-head-serves"),
        pytest.param(EngineKind.VLLM, 1, PortNeeds(listens=False), id="a-headless-rank-does-not"),
        pytest.param(SGLANG, 1, PortNeeds(), id="a-rank-of-sglang-answers-for-its-health"),
    ],
)
def test_a_rank_needs_these_ports(engine: EngineKind, rank: int, expected: PortNeeds) -> None:
    assert port_needs(a_model(engine=engine, nodes=A_AND_B), rank, 20500) == expected


def test_the_needs_of_a_port_are_counted_from_it() -> None:
    assert PortNeeds(offsets=(13, 233), fixed=(5600,)).all_of(8000) == (8000, 8013, 8233, 5600)
    assert PortNeeds(listens=False, fixed=(5600,)).all_of(None) == (5600,)


# ---- where the ranks meet ----


def group(name: str, **fields: Any) -> Any:
    return a_model(name, **{"nodes": A_AND_B, **fields})


def test_only_an_engine_over_several_nodes_needs_a_meeting_port() -> None:
    assert meeting_ports([a_model("one"), a_model("two", nodes=A_AND_B[:1])]) == {}


def test_a_meeting_port_follows_from_the_name_of_the_engine() -> None:
    # crc32 of the engine's name, modulo the 1887 ports from 20100 on
    assert meeting_ports([group("big", replicas=2)]) == {"big@0": 21387, "big@1": 20261}


def test_what_else_stands_in_the_file_changes_no_meeting_port() -> None:
    alone = meeting_ports([group("big")])
    among = meeting_ports([a_model("x", port=alone["big@0"]), group("big"), group("huge", nodes=A_AND_B[::-1])])
    assert among["big@0"] == alone["big@0"]


def test_groups_of_the_same_nodes_step_aside_for_each_other_in_whatever_order_they_stand() -> None:
    models = [group(f"m{number}", replicas=4, engine=SGLANG, args=("--enable-dp-attention",)) for number in range(10)]
    found = meeting_ports(models)
    assert found == meeting_ports(models[::-1])
    opened = [
        port for model in models for k in range(4) for port in port_needs(model, 0, found[f"{model.name}@{k}"]).fixed
    ]
    assert len(opened) == len(set(opened)) == 10 * 4 * 8
    assert min(found.values()) >= MEETING_PORTS[0]
    assert max(opened) < 22000


def test_where_no_port_is_left_the_last_groups_get_one_that_is_taken() -> None:
    found = meeting_ports([group("big", replicas=256, args=("--enable-dp-attention",), engine=SGLANG)])
    assert len(found) == 256
    assert all(MEETING_PORTS[0] <= port <= MEETING_PORTS[1] for port in found.values())
