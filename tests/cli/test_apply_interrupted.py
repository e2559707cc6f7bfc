"""A signal to an apply ends it between two steps; what was started lives on, and the next apply goes on from there."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.fakes import procs
from tests.fakes.node import Json, Node
from tests.fakes.nvidia_smi import h100

SIGNALS = [
    pytest.param(signal.SIGHUP, 129, id="SIGHUP"),
    pytest.param(signal.SIGINT, 130, id="SIGINT"),
    pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
]


def changed(model: Json, **env: str) -> Json:
    return model | {"max_model_len": 2048, "env": model["env"] | env}


def ended(apply: subprocess.Popen[str], code: int) -> str:
    """What it said, when it has ended with this code and without a traceback."""
    out, err = apply.communicate(timeout=30)
    assert apply.returncode == code, out + err
    assert "Traceback" not in out + err
    return out + err


@pytest.mark.parametrize(("signum", "code"), SIGNALS)
def test_while_it_plans_nothing_was_changed(node: Node, signum: signal.Signals, code: int) -> None:
    node.gpus(h100(0), delay=60)
    apply = node.begin("apply", node.state(node.model()))
    procs.until(lambda: any("--query-gpu" in line for line in node.pids().values()))
    apply.send_signal(signum)
    assert f"interrupted by {signum.name}; nothing was changed" in ended(apply, code)
    procs.until(lambda: not node.pids(), what="the tools that it ran are gone")


@pytest.mark.parametrize(("signum", "code"), SIGNALS)
def test_while_it_waits_the_engine_lives_on_and_is_found_by_the_next_apply(
    node: Node, signum: signal.Signals, code: int
) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 2}))
    apply = node.begin("apply", state)
    procs.until(node.stubs)
    apply.send_signal(signum)
    text = ended(apply, code)
    assert "not ready yet: interrupted; its supervisor goes on" in text
    assert "interrupted: what was started lives on; `llmgw status` shows it" in text
    (pid,) = node.stubs()
    node.apply(state)
    assert (node.engine()["pid"], node.engine()["phase"]) == (pid, "ready")


def test_twice_is_no_worse_than_once(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 60}))
    apply = node.begin("apply", state)
    procs.until(node.stubs)
    apply.send_signal(signal.SIGINT)
    apply.send_signal(signal.SIGTERM)
    ended(apply, 130)
    assert len(node.stubs()) == 1


def test_while_it_stops_an_engine_it_leaves_at_once_and_the_engine_goes_on_stopping(node: Node) -> None:
    state = node.state(node.model(stub={"TERM_DELAY": 2}, stop_grace="20s"), node.model("other"))
    node.apply(state)
    node.state(node.model("other", port=node.engine("other@0")["port"]))
    apply = node.begin("apply", state)
    procs.until(lambda: node.engine()["phase"] == "stopping")
    apply.send_signal(signal.SIGTERM)
    assert "asked to stop, and not waited for: interrupted" in ended(apply, 143)
    assert node.engine()["phase"] == "stopping"
    procs.until(lambda: node.engine()["phase"] == "stopped")
    node.apply(state)
    assert set(node.status()) == {"other@0"}


def test_a_replacement_that_is_under_way_still_gets_its_new_engine_and_no_other_is_begun(node: Node) -> None:
    a = node.model("a", stub={"TERM_DELAY": 1.5}, stop_grace="20s")
    b = node.model("b")
    state = node.state(a, b)
    node.apply(state)
    before = node.status()
    node.state(changed(a, STUB_LISTEN_DELAY="1"), changed(b))
    apply = node.begin("apply", state)
    procs.until(lambda: node.engine("a@0")["phase"] == "stopping")
    apply.send_signal(signal.SIGTERM)
    text = ended(apply, 143)
    assert "a@0: not ready yet: interrupted" in text
    assert "not tried  b@0 (replace: interrupted)" in text
    assert not procs.is_alive(before["a@0"]["pid"])
    fresh = node.engine("a@0")["pid"]
    assert fresh not in (None, before["a@0"]["pid"])
    assert node.engine("b@0")["pid"] == before["b@0"]["pid"]
    node.llmgw("wait", "a")
    assert node.actions(state) == {"b@0": "replace"}


def test_while_one_replacement_loads_the_next_is_not_begun(node: Node) -> None:
    a, b = node.model("a"), node.model("b")
    state = node.state(a, b)
    node.apply(state)
    other = node.engine("b@0")["pid"]
    node.state(changed(a, STUB_LISTEN_DELAY="2"), changed(b))
    apply = node.begin("apply", state)
    procs.until(lambda: any("--max-model-len" in line for line in node.stubs().values()))
    apply.send_signal(signal.SIGHUP)
    ended(apply, 129)
    assert node.engine("b@0")["pid"] == other
    node.apply(state)
    assert node.actions(state) == {}


def test_an_apply_that_ignores_hangups_goes_on(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 1}))
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; the child inherits it
    try:
        apply = node.begin("apply", state)
    finally:
        signal.signal(signal.SIGHUP, previous)
    procs.until(node.stubs)
    apply.send_signal(signal.SIGHUP)
    ended(apply, 0)


def test_engines_do_not_notice_that_the_session_of_apply_ends(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)  # in a session of its own, which is gone by now
    pid = node.engine()["pid"]
    assert procs.is_alive(pid)
    assert node.get(node.engine()["port"])[0] == 200


@pytest.mark.parametrize(("signum", "code"), SIGNALS)
def test_stop_leaves_at_once_and_the_engine_is_held(node: Node, signum: signal.Signals, code: int) -> None:
    node.apply(node.state(node.model(stub={"TERM_DELAY": 1.5}, stop_grace="20s")))
    stop = node.begin("stop", "chat")
    procs.until(lambda: node.engine()["phase"] == "stopping")
    stop.send_signal(signum)
    assert "what was asked to stop goes on stopping, and is held" in ended(stop, code)
    procs.until(lambda: node.engine()["phase"] == "held")


@pytest.mark.parametrize(("signum", "code"), SIGNALS)
@pytest.mark.parametrize("command", [("wait",), ("logs", "chat", "-f")], ids=["wait", "logs"])
def test_who_only_looks_leaves_at_once(node: Node, command: tuple[str, ...], signum: signal.Signals, code: int) -> None:
    node.apply(node.state(node.model(stub={"LISTEN_DELAY": 60})), "--no-wait")
    looking = node.begin(*command)
    assert looking.stdout is not None
    assert looking.stderr is not None
    (looking.stderr if command == ("wait",) else looking.stdout).readline()
    looking.send_signal(signum)
    ended(looking, code)
    assert len(node.stubs()) == 1
