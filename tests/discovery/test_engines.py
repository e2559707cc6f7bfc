"""What really runs, put together from records, kernel, sockets and probes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.discovery.engines import engine_finder, observe, with_probes
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase, ProcessId
from tests.fakes import procs
from tests.fakes.node import Node


@pytest.fixture
def state_dir(node: Node) -> StateDir:
    return StateDir(str(node.state_dir))


def one(state_dir: StateDir) -> ObservedEngine:
    (engine,) = observe(state_dir).engines
    return engine


def test_no_state_directory_is_no_engines_and_no_problem(state_dir: StateDir) -> None:
    assert observe(state_dir) == ObservedState()


def test_a_running_engine_with_all_that_is_recorded_of_it(node: Node, state_dir: StateDir) -> None:
    chat = node.model(tensor_parallel_size=2, labels={"team": "a"})
    node.apply(node.state(chat))
    engine = one(state_dir)
    assert engine.engine == "chat@0"
    assert engine.phase is Phase.READY
    assert engine.live is not None
    assert engine.supervisor == ProcessId(*_identity(node.supervisor_of(engine.live.pid)))
    assert (engine.port, engine.host, engine.served, len(engine.gpus)) == (chat["port"], "127.0.0.1", ("chat",), 2)
    assert engine.spec is not None
    assert engine.spec["tensor_parallel_size"] == 2
    assert engine.bookkeeping is not None
    assert engine.bookkeeping["labels"] == {"team": "a"}
    assert engine.problems == ()


def _identity(pid: int) -> tuple[int, int]:
    return pid, procs.ticks_of(pid)


def test_one_folder_that_cannot_be_believed_hides_no_other_and_forbids_to_stop_anything(
    node: Node, state_dir: StateDir
) -> None:
    node.apply(node.state(node.model("a"), node.model("b")))
    (node.state_dir / "engines/a@0").chmod(0o777)
    seen = observe(state_dir)
    (node.state_dir / "engines/a@0").chmod(0o700)
    assert [engine.engine for engine in seen.engines] == ["b@0"]
    assert not seen.readable
    (problem,) = seen.problems
    assert (problem.code, problem.where) == ("records-unreadable", f"{node.state_dir}/engines/a@0")


def test_names_that_are_no_engines_are_passed_over(node: Node, state_dir: StateDir) -> None:
    state_dir.create()
    (node.state_dir / "engines/notes.txt").write_text("")
    (node.state_dir / "engines/.tmp").mkdir()
    assert observe(state_dir).engines == ()


def test_who_listens_on_a_port_of_interest_and_is_none_of_ours(node: Node, state_dir: StateDir) -> None:
    chat = node.model()
    node.apply(node.state(chat))
    other = node.port()
    with procs.listener(other) as pid:
        seen = observe(state_dir, ports={chat["port"], other, node.port()})
    ((port, stranger),) = seen.listeners
    assert (port, stranger.pid, stranger.holds) == (other, pid, f"port {other}")
    assert stranger.command is not None
    assert "socket" not in stranger.command


def test_a_worker_of_ours_on_a_port_is_no_stranger(node: Node, state_dir: StateDir) -> None:
    extra = node.port()
    node.apply(node.state(node.model(stub={"EXTRA_PORTS": extra})))
    assert observe(state_dir, ports={extra}).listeners == ()


def test_probes_are_asked_side_by_side_and_only_of_ready_engines(node: Node, state_dir: StateDir) -> None:
    models = [node.model(name, stub={"HEALTH_DELAY": 0.5}) for name in "abcd"]
    node.apply(node.state(*models, node.model("held")))
    node.llmgw("stop", "held")
    node.tell("b", HEALTH=503)
    began = time.monotonic()
    seen = with_probes(observe(state_dir), {})
    assert time.monotonic() - began < 1.5
    assert {engine.engine: engine.phase for engine in seen.engines} == {
        "a@0": Phase.READY,
        "b@0": Phase.DEGRADED,
        "c@0": Phase.READY,
        "d@0": Phase.READY,
        "held@0": Phase.HELD,
    }


def test_wedged_engines_cost_one_time_out_together(node: Node, state_dir: StateDir) -> None:
    node.apply(node.state(*(node.model(name) for name in "abc")))
    for name in "ab":
        node.tell(name, MUTE="silent")
    began = time.monotonic()
    seen = with_probes(observe(state_dir), {})
    assert time.monotonic() - began < 6.5
    assert [engine.phase for engine in seen.engines] == [Phase.DEGRADED, Phase.DEGRADED, Phase.READY]


def test_a_twin_on_the_port_is_not_the_engine(node: Node, state_dir: StateDir, stranger: Any) -> None:
    chat = node.model(stub={"REUSEPORT": 1})
    node.apply(node.state(chat))
    stranger(node, chat["port"])
    (engine,) = with_probes(observe(state_dir), {}).engines
    assert engine.phase is Phase.DEGRADED
    assert "a process that is not the engine listens" in engine.detail or "/v1/models names" in engine.detail


@pytest.fixture
def stranger() -> Iterator[Any]:
    began: list[subprocess.Popen[bytes]] = []

    def start(node: Node, port: int) -> None:
        command = [node.bin / "vllm", "serve", "m", "--port", str(port), "--served-model-name", "chat"]
        env = {"STUB_REUSEPORT": "1", "PATH": os.defpath}
        began.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True))
        procs.until(lambda: procs.count_listeners(port) == 2)

    yield start
    for process in began:
        process.kill()
        process.wait()


def test_a_pid_on_a_gpu_is_traced_to_its_engine_by_session_group_or_record(node: Node, state_dir: StateDir) -> None:
    node.apply(node.state(node.model(stub={"WORKERS": 2, "WORKER_RENAME": 1})))
    seen = observe(state_dir)
    find = engine_finder(seen)
    assert {find(pid) for pid in node.stubs()} == {"chat@0"}
    assert find(os.getpid()) is None
    assert find(2**22 - 2) is None


def test_the_table_of_a_held_engine_is_what_its_records_say(node: Node, state_dir: StateDir) -> None:
    node.apply(node.state(node.model()))
    node.llmgw("stop", "chat")
    engine = one(state_dir)
    assert (engine.phase, engine.detail, engine.live, engine.supervisor) == (Phase.HELD, "stopped by hand", None, None)
    spec = json.loads(Path(state_dir.engine("chat@0").file("spec.json")).read_text())
    assert spec["held"] is True
