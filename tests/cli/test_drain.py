"""An engine that is to stop is routed to no more, finishes what it has in hand, and is stopped then."""

from __future__ import annotations

import signal
import subprocess
from typing import Any

import pytest

from tests.fakes.node import Node
from tests.fakes.procs import is_alive, until


def routed(node: Node) -> set[str]:
    return {row["engine"] for row in node.llmgw("endpoints", "-o", "json").json()["endpoints"]}


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and output of a command that ends by itself."""
    out, err = process.communicate(timeout=30)
    assert "Traceback" not in out + err
    return process.returncode, out + err


def test_a_stop_waits_for_the_requests_in_hand_and_no_longer(node: Node) -> None:
    node.apply(node.state(node.model(stub={"RUNNING": 2})))
    pid = node.engine()["pid"]
    stop = node.begin("stop", "chat")
    until(lambda: routed(node) == set(), what="it is still routed to")
    assert node.get(node.engine()["port"])[0] == 200
    assert node.engine()["phase"] == "ready"
    node.tell(RUNNING=0)
    code, text = end(stop)
    assert (code, text) == (0, "chat@0: stopped on SIGTERM\n")
    assert not is_alive(pid)
    assert node.engine()["phase"] == "held"


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-cpp"])
def test_the_limit_ends_the_wait_for_any_engine(node: Node, engine: str) -> None:
    node.apply(node.state(node.model(engine=engine, model="org/tiny", stub={"RUNNING": 1})))
    result = node.llmgw("stop", "chat", "--drain", "1s")
    assert 1 <= result.seconds < 10


@pytest.mark.parametrize(
    ("stub", "args"),
    [
        pytest.param({"RUNNING": 5}, ["--drain", "0s"], id="nobody wants to wait"),
        pytest.param({}, [], id="an engine without metrics"),
        pytest.param({"RUNNING": "NaN"}, [], id="an engine that does not know"),
        pytest.param({"RUNNING": 0}, [], id="an idle engine"),
    ],
)
def test_nobody_waits_for_what_there_is_not(node: Node, stub: dict[str, Any], args: list[str]) -> None:
    node.apply(node.state(node.model(stub=stub)))
    assert node.llmgw("stop", "chat", *args).seconds < 10


def test_a_replacement_lets_the_old_engine_finish_before_it_stops(node: Node) -> None:
    chat = node.model(stub={"RUNNING": 1})
    node.apply(node.state(chat))
    pid = node.engine()["pid"]
    apply = node.begin("apply", node.state(chat | {"max_model_len": 4096}))
    until(lambda: routed(node) == set())
    assert is_alive(pid)
    node.tell(RUNNING=0)
    assert end(apply)[0] == 0
    assert routed(node) == {"chat@0"}
    assert node.engine()["pid"] != pid


def test_an_engine_that_the_state_names_no_more_finishes_too(node: Node) -> None:
    old, new = node.model("old", stub={"RUNNING": 1}), node.model("new", gpus={"ids": ["7"]})
    node.apply(node.state(old))
    apply = node.begin("apply", node.state(new))
    until(lambda: routed(node) == {"new@0"}, what="the new engine does not wait for the old one")
    assert is_alive(node.engine("old@0")["pid"])
    node.tell("old", RUNNING=0)
    assert end(apply)[0] == 0
    assert sorted(node.status()) == ["new@0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_replacement_leaves_the_old_engine_serving(node: Node, number: signal.Signals) -> None:
    chat = node.model(stub={"RUNNING": 1})
    node.apply(node.state(chat))
    pid = node.engine()["pid"]
    apply = node.begin("apply", node.state(chat | {"max_model_len": 4096}))
    until(lambda: routed(node) == set())
    apply.send_signal(number)
    code, text = end(apply)
    assert code == 128 + number
    assert "not stopped: it had requests in hand when the wait for them was broken off" in text
    assert node.engine()["pid"] == pid
    assert routed(node) == {"chat@0"}
    node.tell(RUNNING=0)


def test_an_interrupted_stop_leaves_the_engine_serving_and_does_not_hold_it(node: Node) -> None:
    node.apply(node.state(node.model(stub={"RUNNING": 1})))
    stop = node.begin("stop", "chat")
    until(lambda: routed(node) == set())
    stop.send_signal(signal.SIGINT)
    code, text = end(stop)
    assert code == 130
    assert "everything else serves on" in text
    assert node.engine()["phase"] == "ready"
    assert routed(node) == {"chat@0"}
    node.tell(RUNNING=0)


def test_an_engine_whose_drain_was_killed_is_routed_to_again(node: Node) -> None:
    node.apply(node.state(node.model(stub={"RUNNING": 1})))
    stop = node.begin("stop", "chat")
    until(lambda: routed(node) == set())
    stop.kill()
    stop.communicate(timeout=10)
    assert routed(node) == {"chat@0"}
    assert node.actions(node.root / "node.yaml") == {}
    node.tell(RUNNING=0)


def test_a_time_out_of_the_apply_ends_the_wait_too(node: Node) -> None:
    chat = node.model(stub={"RUNNING": 1})
    node.apply(node.state(chat))
    pid = node.engine()["pid"]
    result = node.apply(node.state(chat | {"max_model_len": 4096}), "--timeout", "1s", code=1)
    assert result.seconds < 10
    assert node.engine()["pid"] == pid
    assert routed(node) == {"chat@0"}
    node.tell(RUNNING=0)
