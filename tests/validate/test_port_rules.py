"""Ports that engines open besides: no two of a node the same, and none that somebody has already."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.engines.ports import meeting_ports
from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.desired import DesiredState, EngineKind, GroupNode, ModelSpec
from llmgw_reconcile.model.group import Member
from llmgw_reconcile.model.observed import ForeignProcess
from llmgw_reconcile.validate.file_rules import check_file
from llmgw_reconcile.validate.port_rules import hidden_ports_are_free
from tests.fakes.placed import a_model, a_placement, gpu

SGLANG = EngineKind.SGLANG
ATTENTION: dict[str, Any] = {"engine": SGLANG, "args": ("--enable-dp-attention",)}
NIXL = ("--kv-transfer-config", '{"kv_connector": "NixlConnector"}')
SIDE_CHANNEL, DIVIDED = "VLLM_NIXL_SIDE_CHANNEL_PORT", "data-parallel attention"
X, Y, Z = (GroupNode(name, name) for name in "xyz")


def found(*models: ModelSpec) -> list[tuple[Severity, str, str]]:
    state = DesiredState(source="node.yaml", models=models)
    codes = ("port-twice", "ephemeral-port")
    return [(d.severity, d.code, d.message) for d in check_file(state) if d.code in codes]


def twice(*models: ModelSpec) -> list[str]:
    return [message for severity, _, message in found(*models) if severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        pytest.param(
            (a_model("a", port=8000, **ATTENTION), a_model("b", port=8233)),
            ["b: b@0 would open port 8233, as a@0 (data-parallel attention) does (node.yaml:3:5)"],
            id="a-port-on-which-another-talks-to-itself",
        ),
        pytest.param(
            (a_model("a", port=8000, **ATTENTION), a_model("b", port=8005, **ATTENTION)),
            [f"b: b@0 ({DIVIDED}) would open port 8238, as a@0 ({DIVIDED}) does (node.yaml:3:5)"],
            id="two-that-talk-to-themselves",
        ),
        pytest.param(
            (a_model("a", port=8000, **ATTENTION), a_model("b", port=8020, **ATTENTION)), [], id="far-enough-apart"
        ),
        pytest.param(
            (a_model("a", args=NIXL, replicas=2),),
            [f"a: a@1 ({SIDE_CHANNEL}) would open port 5600, as a@0 ({SIDE_CHANNEL}) does (node.yaml:3:5)"],
            id="replicas-with-one-fixed-port",
        ),
        pytest.param(
            (a_model("a", args=NIXL), a_model("b", args=NIXL, env={"VLLM_NIXL_SIDE_CHANNEL_PORT": "5601"})),
            [],
            id="fixed-ports-that-the-file-moves-apart",
        ),
        pytest.param((a_model("a", args=NIXL), a_model("b", args=NIXL, replicas=0)), [], id="a-parked-model-has-none"),
    ],
)
def test_no_two_engines_open_one_port(models: tuple[ModelSpec, ...], expected: list[str]) -> None:
    assert twice(*models) == expected


@pytest.mark.parametrize(
    ("first", "second", "collide"),
    [
        pytest.param((), (), True, id="both-wherever-the-file-is-applied"),
        pytest.param((X,), (Y,), False, id="on-two-nodes"),
        pytest.param((X,), (), True, id="one-of-them-everywhere"),
        pytest.param((X, Y), (X,), True, id="on-the-head-of-a-group"),
        pytest.param((X, Y), (Y,), False, id="where-a-group-serves-nothing"),
        pytest.param((X, Y), (Y, X), False, id="heads-of-two-nodes"),
        pytest.param((X, Y), (X, Z), True, id="one-head"),
    ],
)
def test_ports_of_different_nodes_do_not_collide(
    first: tuple[GroupNode, ...], second: tuple[GroupNode, ...], collide: bool
) -> None:
    assert bool(twice(a_model("a", port=8000, nodes=first), a_model("b", port=8000, nodes=second))) is collide


def test_each_rank_of_sglang_has_a_port() -> None:
    assert twice(a_model("a", port=8000, nodes=(X, Y), engine=SGLANG), a_model("b", port=8000, nodes=(Y,)))


def test_the_port_where_ranks_meet_is_nobody_elses() -> None:
    group = a_model("big", nodes=(X, Y))
    port = meeting_ports([group])["big@0"]
    assert twice(group, a_model("chat", port=port, nodes=(X,))) == [
        f"chat: chat@0 would open port {port}, as big@0 (where its ranks meet) does (node.yaml:3:5)"
    ]
    assert twice(group, a_model("chat", port=port, nodes=(Y,))) == []


def test_what_is_opened_besides_may_reach_into_the_ephemeral_range() -> None:
    assert found(a_model(port=32600, **ATTENTION)) == [
        (
            Severity.WARNING,
            "ephemeral-port",
            "chat: chat@0 (data-parallel attention) opens port 32833: not below the ephemeral range, 32768-60999",
        )
    ]


# ---- on the node ----


def taken(port: int, *, rank: int | None = None, **fields: Any) -> list[str]:
    member = None if rank is None else Member(rank, 2, "x", 20233)
    placed = a_placement(gpu(0), port=8000, **fields)._replace(member=member)
    stranger = ForeignProcess(4121, "alice", "python app.py", f"port {port}")
    return [one.message for one in hidden_ports_are_free(placed, {port: stranger})]


def test_a_stranger_on_a_hidden_port_blocks_the_engine() -> None:
    assert taken(8013, **ATTENTION) == [
        "port 8013 (data-parallel attention) is taken by pid 4121 python app.py of alice"
    ]
    assert taken(8014, **ATTENTION) == []
    assert taken(5600, args=NIXL) == [f"port 5600 ({SIDE_CHANNEL}) is taken by pid 4121 python app.py of alice"]


def test_only_the_head_needs_the_port_where_ranks_meet() -> None:
    assert taken(20233, rank=0, nodes=(X, Y)) == [
        "port 20233 (where its ranks meet) is taken by pid 4121 python app.py of alice"
    ]
    assert taken(20233, rank=1, nodes=(X, Y)) == []


def test_a_stranger_that_is_not_visible_is_told_too() -> None:
    stranger = ForeignProcess(None, None, None, "port 5600")
    (refusal,) = hidden_ports_are_free(a_placement(gpu(0), args=NIXL), {5600: stranger})
    assert refusal.message == f"port 5600 ({SIDE_CHANNEL}) is taken by a process that is not visible"
