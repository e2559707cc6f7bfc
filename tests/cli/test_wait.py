"""`llmgw wait`: until all are ready, or one has failed."""

from __future__ import annotations

from tests.fakes import procs
from tests.fakes.node import Node


def test_it_waits_for_all_engines_of_the_node(node: Node) -> None:
    models = [node.model(name, stub={"LISTEN_DELAY": delay}) for name, delay in (("a", 0.2), ("b", 1))]
    node.apply(node.state(*models), "--no-wait")
    result = node.llmgw("wait")
    assert result.out == "ready: a@0, b@0\n"
    assert {row["phase"] for row in node.status().values()} == {"ready"}


def test_it_waits_for_those_that_are_named(node: Node) -> None:
    node.apply(node.state(node.model("a"), node.model("b", stub={"LISTEN_DELAY": 60})), "--no-wait")
    assert node.llmgw("wait", "a").out == "ready: a@0\n"
    assert node.llmgw("wait", "a", "-q").text == ""


def test_one_that_has_failed_ends_the_waiting_with_its_cause(node: Node) -> None:
    bad = node.model("bad", stub={"EXIT": "7@0.5", "LISTEN_DELAY": 60, "ERROR": "ValueError: no room"})
    node.apply(node.state(bad, node.model("slow", stub={"LISTEN_DELAY": 60})), "--no-wait")
    result = node.llmgw("wait", code=1)
    assert result.err.splitlines()[-1] == "bad@0: exit code 7: ValueError: no room"
    assert result.seconds < 5


def test_a_timeout_names_who_is_late(node: Node) -> None:
    node.apply(node.state(node.model("a"), node.model("b", stub={"LISTEN_DELAY": 60})), "--no-wait")
    result = node.llmgw("wait", "--timeout", "1s", code=1)
    assert result.err.splitlines()[-1] == "not ready in time: b@0"


def test_a_held_engine_will_not_get_ready(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.llmgw("stop", "chat")
    assert "chat@0: stopped meanwhile" in node.llmgw("wait", code=1).err


def test_an_engine_that_lost_its_supervisor_is_said(node: Node) -> None:
    node.apply(node.state(node.model(stub={"LISTEN_DELAY": 60})), "--no-wait")
    node.kill(node.supervisor_named("chat@0"))
    assert "chat@0: its supervisor is gone" in node.llmgw("wait", code=1).err


def test_a_supervisor_that_dies_while_it_is_waited_for_is_noticed(node: Node) -> None:
    node.apply(node.state(node.model(stub={"LISTEN_DELAY": 60})), "--no-wait")
    wait = node.begin("wait")
    assert wait.stderr is not None
    wait.stderr.readline()
    node.kill(node.supervisor_named("chat@0"))
    procs.until(lambda: wait.poll() is not None, 5)
    assert wait.returncode == 1


def test_nothing_to_wait_for(node: Node) -> None:
    assert node.llmgw("wait").out == "no engines on this node\n"
    assert "unknown engine: chat" in node.llmgw("wait", "chat", code=3).err
