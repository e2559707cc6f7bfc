"""Which engines a node has a part in, and as which rank."""

from __future__ import annotations

import pytest

from llmgw_reconcile.model.desired import GroupNode
from llmgw_reconcile.model.group import rank_of
from llmgw_reconcile.model.recorded import recorded_spec
from llmgw_reconcile.model.spec import engines_here, engines_of
from tests.fakes.placed import a_model


def group(*names: str) -> tuple[GroupNode, ...]:
    return tuple(GroupNode(name, name) for name in names)


@pytest.mark.parametrize(
    ("nodes", "names", "expected"),
    [
        pytest.param((), ["gpu-07"], 0, id="no-nodes-is-wherever-the-file-is-applied"),
        pytest.param(group("gpu-07", "gpu-08"), ["gpu-08"], 1, id="by-position"),
        pytest.param(group("gpu-07", "gpu-08"), ["gpu-09"], None, id="not-of-the-group"),
        pytest.param(group("gpu-07", "gpu-08"), ["gpu-08.example.org"], 1, id="a-short-name-in-the-file"),
        pytest.param(group("gpu-07.example.org", "gpu-08.example.org"), ["gpu-08.example.org"], 1, id="a-full-name"),
        pytest.param(group("gpu-08.example.org"), ["gpu-08"], None, id="a-full-name-says-more-than-the-node-knows"),
        pytest.param(group("gpu-7.a", "gpu-7.b"), ["gpu-7.b"], 1, id="full-names-that-are-equal-in-short"),
        pytest.param(group("gpu-7", "gpu-7.b"), ["gpu-7.b"], 1, id="a-full-name-counts-before-a-short-one"),
        pytest.param(group("GPU-07"), ["gpu-07"], 0, id="in-whatever-case"),
        pytest.param((GroupNode("gpu-07", "gpu-08"),), ["gpu-08"], None, id="an-address-is-no-name"),
        pytest.param(group("10.0.0.7", "10.0.0.8"), ["gpu-08", "10.0.0.8"], 1, id="one-of-several-names"),
    ],
)
def test_the_rank_is_the_position_of_the_nodes_name(
    nodes: tuple[GroupNode, ...], names: list[str], expected: int | None
) -> None:
    assert rank_of(nodes, names) == expected


def test_a_model_of_other_nodes_has_no_engine_here() -> None:
    models = [a_model("a"), a_model("b", nodes=group("x", "y"), replicas=2), a_model("c", nodes=group("z"))]
    assert [(spec.engine, spec.rank) for spec in engines_here(models, ["y"])] == [("a@0", 0), ("b@0", 1), ("b@1", 1)]


def test_the_spec_is_the_same_on_every_node_of_a_group() -> None:
    model = a_model(nodes=(GroupNode("x", "x"), GroupNode("y", "10.0.0.2")))
    (first,), (second,) = engines_of(model, 0), engines_of(model, 1)
    assert first.document == second.document
    assert first.document["nodes"] == ["x", {"name": "y", "address": "10.0.0.2"}]


def test_the_nodes_come_back_from_a_record() -> None:
    nodes = (GroupNode("x", "x"), GroupNode("y", "10.0.0.2"))
    (spec,) = engines_of(a_model(nodes=nodes))
    assert recorded_spec(spec.engine, spec.document, spec.bookkeeping).model.nodes == nodes
