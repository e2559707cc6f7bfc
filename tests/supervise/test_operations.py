"""One thing for one engine at a time, with real supervisors and stub engines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.discovery.engines import observe
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.observed import ObservedEngine
from llmgw_reconcile.supervise.intent import recorded_intent
from llmgw_reconcile.supervise.operations import MEMORY_WAIT_SECONDS, Operations
from llmgw_reconcile.supervise.stopping import Stopping
from llmgw_reconcile.supervise.template import SupervisorTemplate
from llmgw_reconcile.supervisor.ladder import StopOutcome
from tests.fakes import procs
from tests.fakes.clock import FakeClock
from tests.fakes.node import Node
from tests.fakes.nvidia_smi import h100


@pytest.fixture
def operations(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operations]:
    monkeypatch.setenv("PATH", str(node.bin))  # nvidia-smi is found there
    template = SupervisorTemplate()
    yield Operations(StateDir(str(node.state_dir)), node.env, template, SystemClock())
    template.close()


def seen(node: Node, name: str = "chat@0") -> ObservedEngine:
    engine = observe(StateDir(str(node.state_dir))).find(name)
    assert engine is not None
    return engine


def test_what_was_started_can_be_stopped_and_started_again_from_its_record(node: Node, operations: Operations) -> None:
    node.apply(node.state(node.model()))
    intent = recorded_intent(operations.records("chat@0"))
    assert intent is not None
    assert operations.stop("chat@0").outcome is StopOutcome.TERMINATED
    assert operations.stop("chat@0").outcome is StopOutcome.ALREADY_GONE
    operations.start(intent)
    node.llmgw("wait")
    assert len(node.stubs()) == 1


def test_a_second_supervisor_is_not_to_be_had(node: Node, operations: Operations) -> None:
    node.apply(node.state(node.model()))
    intent = recorded_intent(operations.records("chat@0"))
    assert intent is not None
    with pytest.raises(NodeError, match="cannot start a supervisor for chat@0: it has a supervisor already"):
        operations.start(intent)
    assert len(node.stubs()) == 1


def test_an_engine_whose_secret_is_only_the_callers_is_not_adopted_without_it(
    node: Node, operations: Operations
) -> None:
    node.env["TOKEN"] = "canary"
    node.apply(node.state(node.model(env={"HF_TOKEN": {"env": "TOKEN"}})))
    pid = node.engine()["pid"]
    node.kill(node.supervisor_of(pid))
    bare = operations._replace(environ={})
    with pytest.raises(NodeError, match="cannot read a secret: the variable TOKEN is not set"):
        bare.adopt(seen(node))
    assert procs.is_alive(pid)
    operations.adopt(seen(node))
    procs.until(lambda: seen(node).supervisor is not None)
    assert node.engine()["pid"] == pid


def test_an_engine_whose_records_are_lost_is_neither_adopted_nor_updated(node: Node, operations: Operations) -> None:
    node.apply(node.state(node.model()))
    node.kill(node.supervisor_of(node.engine()["pid"]))
    engine = seen(node)
    spec = node.state_dir / "engines/chat@0/spec.json"
    text = spec.read_text()
    spec.unlink()
    with pytest.raises(NodeError, match="its records are incomplete"):
        operations.adopt(engine)
    with pytest.raises(NodeError, match="its records are incomplete"):
        operations.update(engine, {})
    spec.write_text(text)
    spec.chmod(0o600)


def test_a_launch_of_an_older_release_that_lacks_a_field_is_said_to_be_damaged(
    node: Node, operations: Operations
) -> None:
    node.apply(node.state(node.model()))
    node.kill(node.supervisor_of(node.engine()["pid"]))
    launch = node.state_dir / "engines/chat@0/launch.json"
    record = json.loads(launch.read_text())
    del record["document"]["served"]
    launch.write_text(json.dumps(record))
    with pytest.raises(NodeError, match="the records of chat@0 are damaged"):
        operations.adopt(seen(node))


def test_new_bookkeeping_is_written_and_nothing_else_and_the_supervisor_takes_it_up(
    node: Node, operations: Operations
) -> None:
    node.apply(node.state(node.model(restart={"policy": "always"})))
    engine = seen(node)
    before = recorded_intent(operations.records("chat@0"))
    assert before is not None
    assert engine.supervisor is not None
    rests = procs.rests_of(engine.supervisor.pid)
    operations.update(engine, before.bookkeeping | {"restart": before.bookkeeping["restart"] | {"policy": "never"}})
    procs.until(lambda: procs.rests_of(node.supervisor_named("chat@0")) > rests)
    after = recorded_intent(operations.records("chat@0"))
    assert after is not None
    assert after._replace(bookkeeping={}) == before._replace(bookkeeping={})
    assert engine.live is not None
    node.kill(engine.live.pid)
    procs.until(lambda: node.engine()["phase"] == "failed")


def test_a_hold_is_noted_before_the_engine_is_stopped(node: Node, operations: Operations) -> None:
    node.apply(node.state(node.model()))
    operations.hold("chat@0")
    assert node.engine()["phase"] == "ready"
    operations.stop("chat@0")
    assert node.engine()["phase"] == "held"


def test_an_engine_that_nobody_knows_is_gone_already(operations: Operations) -> None:
    operations.state_dir.create()
    assert operations.stop("nobody@0").outcome is StopOutcome.ALREADY_GONE
    operations.hold("nobody@0")
    operations.forget("nobody@0")


def test_forgetting_takes_everything_along(node: Node, operations: Operations) -> None:
    node.apply(node.state(node.model()))
    operations.stop("chat@0")
    folder = operations.state_dir.engine("chat@0")
    assert os.path.isdir(folder.tmp)
    operations.forget("chat@0")
    assert not os.path.exists(folder.tmp)
    assert not os.path.exists(folder.path)


@pytest.mark.parametrize(
    ("card", "left"),
    [
        pytest.param({"memory_used": 1}, (), id="it-came-back"),
        pytest.param(
            {"memory_used": 70_001}, ("GPU 0: 70001 MiB held by no visible process",), id="it-does-not-come-back"
        ),
    ],
)
def test_memory_that_an_ended_engine_held_is_waited_for_and_no_longer_than_its_bound(
    node: Node, operations: Operations, card: dict[str, Any], left: tuple[str, ...]
) -> None:
    node.apply(node.state(node.model()))
    operations.stop("chat@0")
    node.gpus(h100(0, **card))
    clock = FakeClock()
    assert operations._replace(clock=clock).await_memory("chat@0") == left
    assert clock.now <= MEMORY_WAIT_SECONDS + 1


def test_memory_that_another_process_holds_is_not_the_engines(node: Node, operations: Operations) -> None:
    node.apply(node.state(node.model()))
    operations.stop("chat@0")
    card = h100(0, memory_used=70_001)
    node.gpus(card, processes=[{"gpu": card["uuid"], "pid": os.getpid(), "mib": 70_000}])
    assert operations._replace(clock=FakeClock()).await_memory("chat@0") == ()


def test_memory_that_cannot_be_asked_for_is_no_proof(node: Node, operations: Operations) -> None:
    node.apply(node.state(node.model()))
    node.gpus(replies={"": {"code": 18, "error": "Failed to initialize NVML: Driver/library version mismatch\n"}})
    stopping = Stopping(operations, "chat@0", for_good=True)
    with pytest.raises(NodeError, match=r"stopped on SIGTERM, but its GPU memory cannot be asked for: .*mismatch"):
        stopping.prove()


def test_a_stop_goes_on_in_a_thread_while_others_are_looked_at(node: Node, operations: Operations) -> None:
    node.apply(node.state(node.model(stub={"TERM_DELAY": 1}, stop_grace="10s")))
    stopping = Stopping(operations, "chat@0", for_good=False)
    assert not stopping.is_over
    assert stopping.prove() is StopOutcome.TERMINATED
    assert stopping.is_over


def test_a_fault_in_the_thread_of_a_stop_is_not_swallowed(node: Node, operations: Operations) -> None:
    class Broken:
        state_dir, environ, clock = operations.state_dir, operations.environ, operations.clock

        def stop(self, name: str) -> None:
            raise ZeroDivisionError(name)

    operations.state_dir.create()
    with pytest.raises(ZeroDivisionError):
        Stopping(Broken(), "chat@0", for_good=True).prove()  # type: ignore[arg-type]


def test_a_pid_file_that_names_a_stranger_is_stale_and_the_stranger_is_left_alone(
    node: Node, operations: Operations
) -> None:
    node.apply(node.state(node.model()))
    node.kill(node.supervisor_of(node.engine()["pid"]))
    record = node.state_dir / "engines/chat@0/pid.json"
    found = json.loads(record.read_text())
    node.kill(found["pid"])
    with procs.listener(node.port()) as stranger:
        record.write_text(json.dumps(found | {"pid": stranger, "pgid": stranger, "sid": stranger, "members": []}))
        assert operations.stop("chat@0").outcome is StopOutcome.ALREADY_GONE
        assert procs.is_alive(stranger)
    assert Path(record).exists()
