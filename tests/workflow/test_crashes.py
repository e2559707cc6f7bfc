"""SIGKILL of llmgw at any instant: each file is old or new, and the next plan and apply go on from the truth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import killed, procs
from tests.fakes.node import Json, Node

SWEEP = os.environ.get("LLMGW_TEST_EVERY_CRASH") == "1"


def struck(node: Node, point: str, *args: object) -> bool:
    """Run llmgw until SIGKILL strikes it; whether it did."""
    done = subprocess.run(
        [sys.executable, killed.__file__, point, *map(str, args)],
        env=node.env,
        cwd=node.root,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL or "Traceback" not in done.stderr, done.stderr
    return done.returncode == -signal.SIGKILL


def converges(node: Node, state: Path, *names: str) -> None:
    """One plan and one apply later there is exactly one engine of each name, and nothing left to do."""
    node.llmgw("plan", state, code=0)
    node.apply(state, "--max-stops", "9")
    assert {name: row["phase"] for name, row in node.status().items()} == {f"{name}@0": "ready" for name in names}
    assert len(node.stubs()) == len(names), node.stubs()
    assert node.actions(state) == {}
    assert list(node.state_dir.rglob("*.tmp")) == []


def changed(model: Json) -> Json:
    return model | {"max_model_len": 2048}


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("flock:locks/node:after", id="K1-the-lock-is-taken"),
        pytest.param("replace:applied.json:after", id="K1-the-file-is-noted-as-applied"),
        pytest.param("replace:spec.json:before", id="K5-the-intent-is-a-temporary-file"),
        pytest.param("replace:spec.json:after", id="K6-half-of-the-intent-is-written"),
        pytest.param("replace:launch.json:before", id="K5-the-launch-is-a-temporary-file"),
        pytest.param("replace:launch.json:after", id="K2-the-intent-is-written-and-nothing-spawned"),
        pytest.param("posix_spawn:supervisor:before", id="K2-no-template-was-started"),
        pytest.param("posix_spawn:supervisor:after", id="K3-a-template-without-orders"),
        pytest.param("write:pipe:before", id="K3-the-orders-were-not-sent"),
        pytest.param("write:pipe:after", id="K3-the-orders-were-sent-and-nobody-waits"),
    ],
)
def test_a_start_that_is_struck(node: Node, point: str) -> None:
    state = node.state(node.model())
    assert struck(node, point, "apply", state)
    converges(node, state, "chat")


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("pidfd_send_signal::before", id="K9-before-the-old-engine-was-asked-to-stop"),
        pytest.param("pidfd_send_signal::after", id="K9-while-the-old-engine-stops"),
        pytest.param("replace:spec.json:before", id="K11-the-old-is-stopped-and-the-new-not-started"),
        pytest.param("replace:launch.json:after", id="K11-the-new-intent-is-written"),
        pytest.param("write:pipe:after", id="K11-the-new-engine-is-on-its-way"),
    ],
)
def test_a_replacement_that_is_struck(node: Node, point: str) -> None:
    chat = node.model(stub={"TERM_DELAY": 0.3})
    state = node.state(chat)
    node.apply(state)
    node.state(changed(chat))
    assert struck(node, point, "apply", state)
    converges(node, state, "chat")
    assert "--max-model-len 2048" in node.pids()[node.engine()["pid"]]


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("pidfd_send_signal::after", id="K9-while-it-stops"),
        pytest.param("unlink:spec.json:before", id="K10-it-is-gone-and-its-records-are-not"),
        pytest.param("rmdir:engines/chat@0:before", id="K10-half-of-its-records-are-gone"),
    ],
)
def test_a_stop_that_is_struck(node: Node, point: str) -> None:
    other = node.model("other")
    state = node.state(node.model(), other)
    node.apply(state)
    node.state(other)
    assert struck(node, point, "apply", state)
    procs.until(lambda: len(node.stubs()) == 1)
    converges(node, state, "other")


@pytest.mark.parametrize(
    "stub", [pytest.param({"LISTEN_DELAY": 1}, id="K7-starting"), pytest.param({"LOAD_DELAY": 1}, id="K8-loading")]
)
def test_an_apply_that_waits_and_is_struck_leaves_the_engine_on_its_way(node: Node, stub: Json) -> None:
    state = node.state(node.model(stub=stub))
    apply = node.begin("apply", state)
    procs.until(node.stubs)
    apply.kill()
    apply.communicate()
    (pid,) = node.stubs()
    converges(node, state, "chat")
    assert node.engine()["pid"] == pid


def test_a_supervisor_that_is_struck_before_the_pid_file_leaves_an_engine_that_is_adopted(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    pid = node.engine()["pid"]
    node.kill(node.supervisor_of(pid))
    (node.state_dir / "engines/chat@0/pid.json").unlink()  # K4
    assert node.actions(state) == {"chat@0": "adopt"}
    converges(node, state, "chat")
    assert node.engine()["pid"] == pid


def test_a_pid_file_of_the_run_before_does_not_hide_the_engine_of_this_one(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    record = node.state_dir / "engines/chat@0/pid.json"
    before = record.read_text()
    node.llmgw("stop", "chat")
    node.apply(state)
    pid = node.engine()["pid"]
    node.kill(node.supervisor_of(pid))
    record.write_text(before)  # K4, where the run before was ended without its supervisor
    assert node.actions(state) == {"chat@0": "adopt"}
    converges(node, state, "chat")
    assert node.engine()["pid"] == pid


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_plan_file_is_there_whole_or_not_at_all(node: Node, moment: str) -> None:
    state = node.state(node.model())
    assert struck(node, f"replace:plan.json:{moment}", "plan", state, "--out", "plan.json")  # K12
    plan = node.root / "plan.json"
    assert plan.exists() is (moment == "after")
    node.llmgw("plan", state, "--out", "plan.json")
    node.llmgw("apply", "plan.json")
    converges(node, state, "chat")


@pytest.mark.skipif(not SWEEP, reason="LLMGW_TEST_EVERY_CRASH=1 strikes at every operation; it takes minutes")
@pytest.mark.parametrize("what", ["start", "replace", "stop"])
def test_every_operation_that_is_struck(node: Node, what: str) -> None:
    chat, other = node.model(), node.model("other")
    state = node.state(other) if what == "start" else node.state(chat, other)
    node.apply(state)
    wanted = {"start": (chat, other), "replace": (changed(chat), other), "stop": (other,)}[what]
    names = [model["name"] for model in wanted]
    before = state.read_text()
    number = 1
    node.state(*wanted)
    after = state.read_text()
    while struck(node, str(number), "apply", state, "--max-stops", "9"):
        converges(node, state, *names)
        state.write_text(before)
        node.apply(state, "--max-stops", "9")
        state.write_text(after)
        number += 1
    assert number > 20
