"""The whole of llmgw with a real inference engine: llama-server on the CPU, with a model of random weights."""

from __future__ import annotations

import json
import signal
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.demo import model_bytes
from tests.fakes import procs
from tests.fakes.node import Json, Node

PROGRAM = Path(sys.executable).with_name("llama-server-vulkan")
pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(not PROGRAM.exists(), reason="no llama-server-vulkan beside the interpreter: extra `demo`"),
]


def tiny(node: Node, **fields: Any) -> Json:
    """An entry for the real server; what the stub is told by `env` means nothing to it."""
    weights = node.root / "tiny.gguf"
    if not weights.exists():
        weights.write_bytes(model_bytes())
    given = {"engine": "llama-cpp", "model": str(weights), "executable": str(PROGRAM), "device": "cpu"}
    return node.model("tiny", **given | {"max_model_len": 256} | fields)


def unloadable(node: Node) -> str:
    """A model that is whole, and of an architecture that no llama-server knows."""
    path = node.root / "unloadable.gguf"
    path.write_bytes(model_bytes().replace(b"llama", b"lxxma", 1))
    return str(path)


def ask(port: int, model: str = "tiny") -> str:
    """A chat completion over HTTP; the words that came back."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16, "seed": 1}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        answer = json.loads(reply.read())
        assert reply.status == 200, answer
        return str(answer["choices"][0]["message"]["content"])
    finally:
        connection.close()


def servers(node: Node) -> list[int]:
    """Pids of the real engine's processes."""
    return [pid for pid, line in node.pids().items() if "--alias tiny" in line]


def test_a_real_engine_from_plan_to_stop(node: Node) -> None:
    entry = tiny(node)
    state, port = node.state(entry), entry["port"]
    assert node.actions(state) == {"tiny@0": "start"}
    assert servers(node) == []

    node.apply(state)
    first = node.engine("tiny@0")
    assert (first["phase"], first["served"], first["port"]) == ("ready", ["tiny"], port)
    assert servers(node) == [first["pid"]]
    assert len(ask(port).split()) > 8

    node.llmgw("plan", state, "--detailed-exitcode", code=0)
    again = node.apply(state)
    assert "No changes" in again.out
    assert node.engine("tiny@0")["pid"] == first["pid"]

    node.state(entry | {"max_model_len": 512})
    (action,) = node.plan(state)["actions"]
    assert action["action"] == "replace"
    assert action["changes"] == [{"field": "max_model_len", "before": 256, "after": 512, "forces_replace": True}]
    node.apply(state)
    second = node.engine("tiny@0")
    assert second["pid"] != first["pid"]
    assert servers(node) == [second["pid"]]
    assert ask(port)

    node.kill(node.supervisor_of(second["pid"]))
    assert node.engine("tiny@0")["phase"] == "orphaned"
    assert ask(port)
    assert node.actions(state) == {"tiny@0": "adopt"}
    node.apply(state)
    adopted = node.engine("tiny@0")
    assert (adopted["pid"], adopted["phase"], adopted["restarts"]) == (second["pid"], "ready", 0)
    assert node.actions(state) == {}

    node.llmgw("stop", "tiny")
    assert servers(node) == []
    assert port not in procs.listening_ports()
    assert node.engine("tiny@0")["phase"] == "held"
    assert node.pids() == {}


def test_a_ready_engine_that_is_killed_comes_back_by_itself(node: Node) -> None:
    entry = tiny(node)
    node.apply(node.state(entry))
    pid = node.engine("tiny@0")["pid"]
    node.kill(pid)
    procs.until(lambda: node.engine("tiny@0")["phase"] == "ready" and node.engine("tiny@0")["pid"] != pid, 20)
    now = node.engine("tiny@0")
    assert now["restarts"] == 1
    assert now["last_exit"]["signal"] == "SIGKILL"
    assert ask(entry["port"])


def test_an_adopted_engine_that_is_killed_comes_back_by_itself(node: Node) -> None:
    entry = tiny(node)
    state = node.state(entry)
    node.apply(state)
    pid = node.engine("tiny@0")["pid"]
    node.kill(node.supervisor_of(pid))
    node.apply(state)
    node.kill(pid)
    procs.until(lambda: any(server != pid for server in servers(node)), 20)
    procs.until(lambda: node.engine("tiny@0")["phase"] == "ready", 20)
    assert ask(entry["port"])


def test_a_truncated_model_is_blocked_before_anything_is_started(node: Node) -> None:
    path = node.root / "truncated.gguf"
    path.write_bytes(model_bytes()[:100_000])
    result = node.apply(node.state(tiny(node, model=str(path))), code=1)
    assert "truncated: 100000 bytes" in result.out
    assert node.pids() == {}


def test_a_model_that_does_not_load_fails_at_once_with_its_cause(node: Node) -> None:
    state = node.state(tiny(node, model=unloadable(node)))
    result = node.apply(state, code=1)
    assert result.seconds < 5
    assert "failed: tiny@0  start: exit code 1" in result.out
    assert "unknown model architecture: 'lxxma'" in result.out.partition("cause: ")[2].splitlines()[0]
    engine = node.engine("tiny@0")
    assert (engine["phase"], engine["last_exit"]["code"], engine["restarts"]) == ("failed", 1, 0)
    assert servers(node) == []
    assert "tiny@0" in node.llmgw("wait", code=1).err


def test_a_replacement_that_does_not_load_is_rolled_back(node: Node) -> None:
    entry = tiny(node)
    state = node.state(entry)
    node.apply(state)
    node.state(entry | {"model": unloadable(node)})
    result = node.apply(state, code=1)
    assert "rolled back to its previous launch, which is ready" in result.out
    assert node.engine("tiny@0")["phase"] == "ready"
    assert len(servers(node)) == 1
    assert ask(entry["port"])


def test_a_port_that_somebody_else_has_blocks_the_engine_and_names_them(node: Node) -> None:
    entry = tiny(node)
    state = node.state(entry)
    with procs.listener(entry["port"]) as pid:
        result = node.llmgw("apply", state, code=1)
        assert f"port {entry['port']} is taken by pid {pid}" in result.out
        assert procs.is_alive(pid)
    assert servers(node) == []
    node.apply(state)
    assert ask(entry["port"])


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_an_end_that_nobody_asked_llmgw_for_is_a_crash_whatever_the_exit_code(
    node: Node, signum: signal.Signals
) -> None:
    node.apply(node.state(tiny(node)))
    pid = node.engine("tiny@0")["pid"]
    node.kill(pid, signum)
    procs.until(lambda: not procs.is_alive(pid))
    procs.until(lambda: node.engine("tiny@0")["phase"] == "ready", 20)
    now = node.engine("tiny@0")
    assert now["pid"] != pid
    assert now["last_exit"]["code"] == 0
