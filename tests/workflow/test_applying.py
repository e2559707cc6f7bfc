"""An apply without a person, on real engines: what it locks, records, refuses and leaves alone."""

from __future__ import annotations

import json
from itertools import count

import pytest

from llmgw_reconcile.agent.log import AgentLog
from llmgw_reconcile.errors import BusyError, NodeError, RefusedError
from llmgw_reconcile.host.lock import take_lock
from llmgw_reconcile.host.proc import identify
from llmgw_reconcile.plan.actions import ActionKind
from llmgw_reconcile.workflow.applying import Wish, apply_state, is_recorded, replace_dead
from llmgw_reconcile.workflow.host import this_host
from llmgw_reconcile.workflow.reading import state_from
from tests.fakes.procs import until


class By:
    """Chooses everything, and waits for it."""

    def __init__(self, when_chosen=lambda: None):
        self.lines, self.began, self.when_chosen = [], 0, when_chosen
        self.reporter = AgentLog(self.lines.append, as_json=False)

    def say(self, line):
        self.lines.append(line)

    def choose(self, planned):
        self.when_chosen()
        return tuple(action for action in planned.plan.actions if action.kind is not ActionKind.KEEP)

    def begin(self):
        self.began += 1

    def acted(self):
        pass

    def is_interrupted(self):
        return False


@pytest.fixture
def host(node):
    return this_host(state_dir=str(node.state_dir), environ=node.env)


@pytest.fixture(autouse=True)
def _path(node, monkeypatch):
    monkeypatch.setenv("PATH", node.env["PATH"])  # where tools are looked for


def wish(path):
    state, data, _ = state_from(str(path))
    return Wish(state, data)


def about(node):
    return json.loads((node.state_dir / "applied" / "applied.json").read_text())


def test_it_carries_out_and_records(node, host):
    path = node.state(node.model("chat"))
    applied = apply_state(host, wish(path), By())
    assert [(outcome.engine, outcome.ok) for outcome in applied.outcomes] == [("chat@0", True)]
    assert node.engine("chat@0")["phase"] == "ready"
    assert (about(node)["file"], about(node)["ok"]) == (str(path), True)
    assert is_recorded(host, wish(path))


def test_where_nothing_is_to_be_done_nothing_is_locked_and_nothing_written(node, host):
    path = node.state(node.model("chat"))
    apply_state(host, wish(path), By())
    before, by = node.files(), By()
    lock = take_lock(host.state_dir.node_lock, purpose="test")
    before |= {"state/locks/node": node.files()["state/locks/node"]}
    try:
        assert apply_state(host, wish(path), by).outcomes == ()
    finally:
        lock.release()
    assert by.began == 0
    assert node.files() == before


def test_another_file_with_the_same_effect_is_recorded(node, host):
    chat = node.model("chat")
    apply_state(host, wish(node.state(chat)), By())
    other = node.state(chat, file="other.yaml")
    assert not is_recorded(host, wish(other))
    assert [outcome.action for outcome in apply_state(host, wish(other), By()).outcomes] == []
    assert about(node)["file"] == str(other)


def test_a_held_lock_is_busy_and_nothing_is_begun(node, host):
    path, by = node.state(node.model("chat")), By()
    host.state_dir.create()
    lock = take_lock(host.state_dir.node_lock, purpose="llmgw apply")
    try:
        with pytest.raises(BusyError, match="must wait for llmgw apply"):
            apply_state(host, wish(path), by)
    finally:
        lock.release()
    assert by.began == 0
    assert node.stubs() == {}


def test_an_engine_that_moved_between_its_plan_and_its_lock_is_planned_for_again(node, host):
    chat = node.model("chat")
    node.apply(node.state(chat))
    pid = node.engine("chat@0")["pid"]
    supervisor = node.supervisor_of(pid)

    times = count(1)

    def end():
        if next(times) == 2:  # under the node's lock, as a stop that began before and holds its engine's alone
            node.kill(supervisor)
            node.kill(pid)

    path = node.state({**chat, "max_model_len": 4096})
    with pytest.raises(BusyError, match="chat@0 changes just now"):
        apply_state(host, wish(path), By(end))
    assert node.stubs() == {}
    assert about(node)["digest"] != wish(path).state.digest


def test_a_guard_refuses_and_nothing_is_begun(node, host):
    models = [node.model(name) for name in ("chat", "code", "embed")]
    node.apply(node.state(*models))
    by = By()
    with pytest.raises(RefusedError, match="2 of 3 running engines would stop for good"):
        apply_state(host, wish(node.state(models[0])), by)
    assert by.began == 0
    assert len(node.stubs()) == 3


def dead(node):
    node.tell("chat", HEALTH=503)
    until(lambda: node.engine("chat@0")["phase"] == "degraded")


def leader(node):
    found = identify(node.engine("chat@0")["pid"])
    assert found is not None
    return found


def test_an_engine_that_does_not_answer_is_started_afresh(node, host):
    node.apply(node.state(node.model("chat")))
    was = leader(node)
    dead(node)
    by = By(lambda: None)
    by.begin = lambda: node.tell("chat")  # the new run answers
    (outcome,) = replace_dead(host, "chat@0", was, "no sign of life", by).outcomes
    assert (outcome.action, outcome.ok) == (ActionKind.REPLACE, True)
    assert node.engine("chat@0")["pid"] not in (None, was.pid)
    assert "no sign of life" in node.llmgw("events").out


def test_an_engine_that_answers_again_is_left_alone(node, host):
    node.apply(node.state(node.model("chat")))
    was = leader(node)
    assert replace_dead(host, "chat@0", was, "no sign of life", By()).outcomes == ()
    assert node.engine("chat@0")["pid"] == was.pid


def test_another_run_is_left_alone(node, host):
    node.apply(node.state(node.model("chat")))
    was = leader(node)
    dead(node)
    assert replace_dead(host, "chat@0", was._replace(ticks=was.ticks - 1), "no sign of life", By()).outcomes == ()
    assert node.engine("chat@0")["pid"] == was.pid


def test_a_protected_engine_is_not_replaced(node, host):
    node.apply(node.state(node.model("chat", protect=True)))
    was = leader(node)
    dead(node)
    with pytest.raises(RefusedError, match="protect"):
        replace_dead(host, "chat@0", was, "no sign of life", By())
    assert node.engine("chat@0")["pid"] == was.pid


def test_an_engine_whose_program_is_gone_is_not_taken_down(node, host):
    node.apply(node.state(node.model("chat")))
    was = leader(node)
    dead(node)
    (node.bin / "vllm").unlink()
    with pytest.raises(NodeError, match="vllm"):
        replace_dead(host, "chat@0", was, "no sign of life", By())
    assert node.engine("chat@0")["pid"] == was.pid
