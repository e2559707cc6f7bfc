"""`llmgw stop`: proven, bounded, and held until somebody asks for the engine again."""

from __future__ import annotations

import json
import signal

import pytest

from tests.fakes import procs
from tests.fakes.node import Node


def test_a_stopped_engine_is_held_until_the_next_apply(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    result = node.llmgw("stop", "chat")
    assert result.out == "chat@0: stopped on SIGTERM\n"
    assert node.pids() == {}
    assert chat["port"] not in procs.listening_ports()
    assert node.engine()["phase"] == "held"
    assert "held: it was stopped by hand; this apply starts it again" in node.llmgw("plan", state).out
    node.apply(state)
    assert node.engine()["phase"] == "ready"


def test_a_held_engine_stays_held_when_it_is_stopped_again_and_is_started_by_restart(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.llmgw("stop", "chat")
    assert node.llmgw("stop", "chat@0").out == "chat@0: already gone\n"
    assert node.engine()["phase"] == "held"
    node.llmgw("restart", "chat")
    assert node.engine()["phase"] == "ready"


def test_all_replicas_of_a_model_or_one_or_everything(node: Node) -> None:
    node.apply(node.state(node.model(replicas=2), node.model("other")))
    node.llmgw("stop", "chat@1")
    assert {name: row["phase"] for name, row in node.status().items()} == {
        "chat@0": "ready",
        "chat@1": "held",
        "other@0": "ready",
    }
    node.llmgw("stop", "chat")
    assert node.engine("other@0")["phase"] == "ready"
    node.llmgw("stop", "--all")
    assert {row["phase"] for row in node.status().values()} == {"held"}
    assert node.stubs() == {}


def test_a_name_that_no_record_knows_is_refused_with_those_that_are_known(node: Node) -> None:
    assert "unknown engine: chat; this node has none" in node.llmgw("stop", "chat", code=3).err
    node.apply(node.state(node.model("a"), node.model("b")))
    assert "unknown engine: c, d; this node has a@0, b@0" in node.llmgw("stop", "a", "c", "d", code=3).err
    assert len(node.stubs()) == 2


def test_without_engines_all_is_nothing(node: Node) -> None:
    assert node.llmgw("stop", "--all").out == "no engines on this node\n"


def test_an_engine_that_ignores_sigterm_is_killed_with_all_its_workers_after_its_grace(node: Node) -> None:
    stub = {"IGNORE_TERM": "always", "WORKERS": 2, "WORKER_IGNORE_TERM": 1, "WORKER_RENAME": 1}
    node.apply(node.state(node.model(stub=stub, stop_grace="1s")))
    assert len(node.stubs()) == 3
    result = node.llmgw("stop", "chat")
    assert result.out == "chat@0: stopped on SIGKILL\n"
    assert 1 <= result.seconds < 5
    assert node.pids() == {}


def test_engines_are_stopped_side_by_side(node: Node) -> None:
    stub = {"TERM_DELAY": 1}
    node.apply(node.state(*(node.model(name, stub=stub, stop_grace="10s") for name in "abc")))
    assert node.llmgw("stop", "--all").seconds < 2.5


def test_orphans_are_stopped_without_a_supervisor_and_side_by_side_too(node: Node) -> None:
    node.apply(node.state(*(node.model(name, stub={"TERM_DELAY": 1}, stop_grace="10s") for name in "abc")))
    for row in node.status().values():
        node.kill(node.supervisor_of(row["pid"]))
    result = node.llmgw("stop", "--all")
    assert result.seconds < 2.5
    assert node.pids() == {}
    assert {row["phase"] for row in node.status().values()} == {"held"}


def test_an_engine_of_which_only_the_mark_is_known_is_stopped(node: Node) -> None:
    node.apply(node.state(node.model()))
    pid = node.engine()["pid"]
    node.kill(node.supervisor_of(pid))
    (node.state_dir / "engines/chat@0/pid.json").unlink()  # as after a crash right behind the spawn
    assert (node.engine()["phase"], node.engine()["pid"]) == ("orphaned", pid)
    node.llmgw("stop", "chat")
    assert not procs.is_alive(pid)


def test_an_engine_that_is_suspended_is_stopped(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.kill(node.engine()["pid"], signal.SIGSTOP)
    procs.until(lambda: node.engine()["phase"] == "degraded")
    assert "suspended (T)" in node.llmgw("status").out
    assert node.llmgw("stop", "chat").out == "chat@0: stopped on SIGTERM\n"


def test_an_engine_that_loads_is_stopped_within_its_short_grace(node: Node) -> None:
    stub = {"LISTEN_DELAY": 60, "IGNORE_TERM": "always"}
    node.apply(node.state(node.model(stub=stub, stop_grace="60s")), "--no-wait")
    result = node.llmgw("stop", "chat")
    assert result.seconds < 12
    assert node.stubs() == {}


def test_memory_that_cannot_be_asked_for_is_reported(node: Node) -> None:
    node.apply(node.state(node.model(stub={"MIB": 70000})))
    node.gpus(replies={"": {"code": 18, "error": "Failed to initialize NVML: Driver/library version mismatch\n"}})
    result = node.llmgw("stop", "chat", code=1)
    assert "chat@0: not stopped: stopped on SIGTERM, but its GPU memory cannot be asked for: " in result.err
    assert result.seconds < 8
    assert node.stubs() == {}


def test_quiet_says_only_what_went_wrong(node: Node) -> None:
    node.apply(node.state(node.model()))
    assert node.llmgw("stop", "chat", "-q").text == ""


@pytest.mark.parametrize("damage", ["", "{}", "not json", "\0\0\0\0", '{"format_version": 99}'])
def test_a_damaged_pid_file_hides_no_engine_and_harms_nobody(node: Node, damage: str) -> None:
    state = node.state(node.model())
    node.apply(state)
    pid = node.engine()["pid"]
    (node.state_dir / "engines/chat@0/pid.json").write_text(damage)
    assert (node.engine()["pid"], node.engine()["phase"]) == (pid, "ready")
    assert "warning[record-set-aside]" in node.llmgw("plan", state).out
    assert node.actions(state) == {}
    node.llmgw("stop", "chat")
    assert node.stubs() == {}


def test_a_spec_that_is_lost_leaves_the_engine_alone_until_it_is_stopped(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    pid = node.engine()["pid"]
    (node.state_dir / "engines/chat@0/spec.json").write_text(json.dumps({"format_version": 99}))
    assert "its record is lost" in node.apply(state, code=1).out
    assert node.engine()["pid"] == pid
    node.llmgw("stop", "chat")
    node.apply(state)
    assert node.engine()["phase"] == "ready"
