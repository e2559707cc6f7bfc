"""A look at a node that asks no engine."""

from __future__ import annotations

from tests.fakes.node import Node


def test_an_engine_that_hangs_does_not_hold_the_doctor_up(node: Node) -> None:
    node.apply(node.state(node.model("chat")))
    node.tell("chat", HEALTH_DELAY=30)
    found = node.llmgw("doctor", code=None)
    assert found.seconds < 5
    assert "running  1 engine\n" in found.out
