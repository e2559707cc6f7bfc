"""Engines as they come and go, seen through what their supervisors publish."""

from __future__ import annotations

import select

import pytest

from llmgw_reconcile.agent.engine_watch import EngineWatch
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.observed import Phase
from tests.fakes.procs import until


@pytest.fixture
def watch(node):
    watch = EngineWatch(StateDir(str(node.state_dir)))
    yield watch
    watch.close()


def changes(watch):
    return [(change.engine, change.phase, change.needs_a_look) for change in watch.look()]


def readable(watch):
    poller = select.poll()
    for fd in watch.fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll(5000)]


def test_before_the_first_apply_there_is_nothing(watch):
    assert watch.look() == ()
    assert watch.fds == ()


def test_an_engine_that_serves_is_told_once(node, watch):
    node.apply(node.state(node.model("chat")))
    assert changes(watch) == [("chat@0", Phase.READY, False)]
    assert changes(watch) == []
    assert len(watch.fds) == 1


def test_the_death_of_a_supervisor_wakes_and_asks_for_a_look(node, watch):
    node.apply(node.state(node.model("chat")))
    watch.look()
    node.kill(node.supervisor_of(node.engine("chat@0")["pid"]))
    assert readable(watch) == list(watch.fds)
    assert changes(watch) == [("chat@0", Phase.ORPHANED, True)]
    assert changes(watch) == []
    assert watch.fds == ()


def test_an_engine_that_is_stopped_asks_for_a_look_and_is_gone_with_its_records(node, watch):
    state = node.state(node.model("chat"), node.model("code"))
    node.apply(state)
    watch.look()
    node.llmgw("stop", "chat")
    assert changes(watch) == [("chat@0", Phase.STOPPED, True)]
    node.state(node.model("code"))
    node.apply(state, "--max-stops", "2")
    assert ("chat@0", None, False) in changes(watch)


def test_a_failure_is_told_with_its_cause(node, watch):
    node.apply(node.state(node.model("chat", stub={"EXIT": "7@0", "ERROR": "ValueError: no such head"})), code=1)
    (change,) = watch.look()
    assert (change.phase, change.needs_a_look) == (Phase.FAILED, True)
    assert "exit code 7" in change.detail
    assert "ValueError: no such head" in change.detail


def test_a_crash_is_the_supervisors_affair(node, watch):
    node.apply(node.state(node.model("chat")))
    watch.look()
    node.kill(node.engine("chat@0")["pid"])
    seen = until(lambda: changes(watch))
    assert not any(needs_a_look for _, _, needs_a_look in seen)
    until(lambda: node.engine("chat@0")["phase"] == "ready", 15)


def test_a_folder_that_others_may_write_to_is_not_believed(node, watch):
    node.apply(node.state(node.model("chat")))
    folder = node.state_dir / "engines" / "chat@0"
    folder.chmod(0o777)
    (change,) = watch.look()
    assert change.needs_a_look
    assert "others may write to it" in change.detail
    folder.chmod(0o700)
