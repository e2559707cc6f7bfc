"""The life of an engine under its supervisor, with real engines; only the waiting between restarts is skipped."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.host.proc import ProcessStat, identify
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor import ladder
from llmgw_reconcile.supervisor.life import Life
from llmgw_reconcile.supervisor.orders import Adoption, Orders
from llmgw_reconcile.supervisor.records import Records
from llmgw_reconcile.supervisor.run import Run
from tests.fakes.nvidia_smi import h100, uuid_of
from tests.fakes.procs import is_alive, until
from tests.fakes.supervised import Place
from tests.fakes.wakes import QuickWake

GPU0 = uuid_of(0)


class Publisher(Records):
    """Records that also remember every phase, and do what a test wants when one is published."""

    def __init__(self, orders: Orders) -> None:
        super().__init__(orders.engine, EngineDir(orders.folder), orders.launch)
        self.phases: list[tuple[str, str, int]] = []
        self.on: dict[str, Callable[[], object]] = {}

    def publish_phase(self, phase: Any, *, detail: str = "", restarts: int = 0, **more: Any) -> None:
        super().publish_phase(phase, detail=detail, restarts=restarts, **more)
        entry = (str(phase), detail, restarts)
        if entry not in self.phases[-1:]:
            self.phases.append(entry)
            self.on.get(str(phase), lambda: None)()

    @property
    def names(self) -> list[str]:
        """The phases, each once as long as it lasts."""
        names = [name for name, _, _ in self.phases]
        return [name for at, name in enumerate(names) if name not in names[max(0, at - 1) : at]]


@pytest.fixture
def live(place: Place, quick: QuickWake, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Publisher]:
    monkeypatch.setenv("PATH", f"{place.root}/bin:/usr/bin:/bin")

    def begin(*, on: dict[str, Callable[[], object]] | None = None, **orders: Any) -> Publisher:
        made = place.orders(**orders)
        publisher = Publisher(made)
        publisher.on = on or {}
        Life(made, publisher, quick).live()
        return publisher

    return begin


def stop_soon() -> None:
    """What `llmgw stop` sends."""
    os.kill(os.getpid(), signal.SIGTERM)


def crash(place: Place, number: int = signal.SIGKILL) -> Callable[[], object]:
    return lambda: os.kill(place.leader(), number)


# -- a start that fails


def test_a_failed_start_is_told_with_code_and_cause_and_not_repeated(
    place: Place, quick: QuickWake, live: Callable[..., Publisher]
) -> None:
    told = live(
        stub={"EXIT": "7@0", "LISTEN_DELAY": 60, "ERROR": "ValueError: No available memory for the cache blocks"}
    )
    assert told.phases[-1] == ("failed", "ValueError: No available memory for the cache blocks", 0)
    (end,) = place.exits()
    assert (end["code"], end["signal"], end["was_ready"]) == (7, None, False)
    assert "No available memory" in end["tail"]
    assert quick.pauses == []
    assert place.record("pid.json") == {}


def test_exit_0_before_it_was_ready_is_a_failed_start(place: Place, live: Callable[..., Publisher]) -> None:
    told = live(argv=("/bin/sh", "-c", "echo bye"))
    assert told.phases[-1] == ("failed", "bye", 0)
    assert place.exits()[0]["code"] == 0


def test_a_program_that_is_not_there_is_a_failed_start(place: Place, live: Callable[..., Publisher]) -> None:
    told = live(argv=("/opt/absent/vllm",))
    assert told.phases[-1] == ("failed", "cannot start /opt/absent/vllm: No such file or directory", 0)
    assert place.exits()[0]["cause"] == "cannot start /opt/absent/vllm: No such file or directory"


def test_a_start_that_takes_too_long_is_ended_with_all_its_workers(
    place: Place, live: Callable[..., Publisher]
) -> None:
    told = live(
        stub={"WORKERS": 2, "WORKER_IGNORE_TERM": 1, "IGNORE_TERM": "always", "LOAD_DELAY": 600},
        start_timeout=1.0,
        loading_grace=0.1,
    )
    assert told.names == ["starting", "loading", "stopping", "failed"]
    assert told.phases[-1][1] == "not ready within 1 s (/health answers 503)"
    assert place.exits()[0]["signal"] == "SIGKILL"


def test_workers_of_a_leader_that_failed_are_ended_and_leave_their_last_words(
    place: Place, live: Callable[..., Publisher]
) -> None:
    script = "(trap '' TERM; sleep 0.2; echo ERROR: the worker says why; sleep 600) & exit 3"
    told = live(argv=("/bin/sh", "-c", script))
    assert told.phases[-1] == ("failed", "the worker says why", 0)


# -- crashes of what was ready


def test_a_crash_is_followed_by_a_start_at_once(place: Place, live: Callable[..., Publisher]) -> None:
    pids: list[int] = []

    def ready() -> None:
        pids.append(place.leader())
        (stop_soon if len(pids) > 1 else crash(place))()

    told = live(stub={}, on={"ready": ready})
    assert told.phases == [
        ("starting", "", 0),
        ("ready", "", 0),
        ("starting", "", 1),
        ("ready", "", 1),
        ("stopping", "", 1),
        ("stopped", "stopped on SIGTERM", 1),
    ]
    assert len(set(pids)) == 2
    assert [(end["signal"], end["was_ready"]) for end in place.exits()] == [("SIGKILL", True)]


@pytest.mark.parametrize("how", ["0@0.2", "1@0.2"], ids=["exit-0", "exit-1"])
def test_every_end_that_nobody_asked_for_is_a_crash(
    place: Place, quick: QuickWake, live: Callable[..., Publisher], how: str
) -> None:
    """The engine serves for a moment, ends by itself, and does so each time: delays grow, and there is an end."""
    told = live(stub={"EXIT": how}, max_restarts=5)
    assert quick.pauses == [10, 30, 60, 120]
    assert [phase for phase in told.phases if phase[0] == "backoff"] == [
        ("backoff", f"exit code {how[0]}; starts again in {seconds} s", restarts)
        for restarts, seconds in ((2, 10), (3, 30), (4, 60), (5, 120))
    ]  # fmt: skip
    assert told.phases[-1][0] == "failed"
    assert told.phases[-1][2] == 5
    assert len(place.exits()) == 5  # of six


def test_a_worker_that_dies_takes_the_engine_with_it_and_it_comes_back(
    place: Place, live: Callable[..., Publisher]
) -> None:
    """vLLM ends with code 0 then."""
    crashed: list[int] = []

    def ready() -> None:
        if crashed:
            stop_soon()
            return
        worker = next(pid for pid, line in place.processes().items() if line.startswith("VLLM::Worker"))
        crashed.append(worker)
        os.kill(worker, signal.SIGKILL)

    told = live(stub={"WORKERS": 2, "WORKER_RENAME": 1}, on={"ready": ready})
    assert "starting" in told.names[2:]
    assert (place.exits()[0]["code"], place.exits()[0]["was_ready"]) == (0, True)


def test_a_killed_leader_leaves_no_worker_behind_when_it_comes_back(
    place: Place, live: Callable[..., Publisher]
) -> None:
    survivors: list[int] = []

    def ready() -> None:
        workers = [pid for pid, line in place.processes().items() if line.startswith("VLLM::Worker")]
        if survivors:
            assert not set(survivors) & set(workers)
            assert not any(map(is_alive, survivors))
            stop_soon()
        else:
            survivors.extend(workers)
            crash(place)()

    stub = {"WORKERS": 2, "WORKER_RENAME": 1, "WORKER_IGNORE_TERM": 1}
    live(stub=stub, on={"ready": ready})
    assert len(survivors) == 2


def test_the_policy_never_means_never(place: Place, live: Callable[..., Publisher]) -> None:
    told = live(stub={}, restart_policy="never", on={"ready": crash(place)})
    assert told.names == ["starting", "ready", "failed"]


def test_after_enough_time_of_service_crashes_are_forgotten(place: Place, live: Callable[..., Publisher]) -> None:
    seen: list[int] = []

    def ready() -> None:
        restarts = place.record("phase.json")["restarts"]
        seen.append(restarts)
        if len(seen) == 1:
            crash(place)()
        elif restarts == 0:
            stop_soon()

    live(stub={}, reset_after=0.3, on={"ready": ready})
    assert seen == [0, 1, 0]


def test_a_restart_waits_for_its_port_and_that_uses_up_no_budget(
    place: Place, quick: QuickWake, live: Callable[..., Publisher]
) -> None:
    port = place.port()
    taken: list[socket.socket] = []

    def ready() -> None:
        if taken:
            stop_soon()
            return
        crash(place)()
        until(lambda: not is_alive(place.leader()))
        taken.append(socket.create_server(("127.0.0.1", port)))

    quick.meanwhile[7] = lambda: taken[0].close()
    told = live(stub={}, port=port, max_restarts=1, on={"ready": ready})
    words = f"waits: port {port} is taken by pid {os.getpid()}"
    assert ("backoff", words, 1) in told.phases
    assert told.phases[-1][0] == "stopped"
    assert quick.pauses[0] == 0  # the delay before a first restart
    assert len(quick.pauses) == 7


def test_a_restart_waits_for_the_memory_of_its_gpus(
    place: Place, quick: QuickWake, live: Callable[..., Publisher]
) -> None:
    place.gpus()
    crashed: list[bool] = []

    def ready() -> None:
        if crashed:
            stop_soon()
        else:
            crashed.append(True)
            place.gpus(h100(0, memory_used=9000))
            crash(place)()

    quick.meanwhile[4] = place.gpus
    told = live(stub={}, gpus=(GPU0,), max_restarts=1, on={"ready": ready})
    words = "waits: memory not released: GPU 0: 9000 MiB held by no visible process"
    assert ("backoff", words, 1) in told.phases
    assert told.phases[-1][0] == "stopped"


def test_a_restart_that_cannot_be_made_is_told_behind_the_crash(place: Place, live: Callable[..., Publisher]) -> None:
    program = place.script("engine", '#!/bin/sh\nexec /work "$@"\n')
    orders = place.orders(stub={})
    vllm = orders.argv[0]
    place.script("engine", f'#!/bin/sh\nexec {vllm} "$@"\n')

    def ready() -> None:
        os.unlink(program)
        crash(place)()

    told = live(argv=(program, *orders.argv[1:]), port=orders.target.port, on={"ready": ready})
    assert told.phases[-1][1] == f"cannot start {program}: No such file or directory"
    assert [end["signal"] for end in place.exits()] == ["SIGKILL", None]


# -- first starts that have to wait


def test_a_first_start_that_gets_no_memory_is_never_made(
    place: Place, quick: QuickWake, live: Callable[..., Publisher]
) -> None:
    place.gpus(processes=[{"gpu": GPU0, "pid": 4121, "mib": 61190}])
    told = live(stub={}, gpus=(GPU0,))
    assert told.phases == [
        ("starting", "waits: memory not released: GPU 0: 61190 MiB held by pid 4121", 0),
        ("failed", "memory not released: GPU 0: 61190 MiB held by pid 4121", 0),
    ]
    assert 100 < sum(quick.pauses) < 126  # and what asking took
    assert not os.path.exists(place.folder().log)


def test_a_tool_of_the_supervisor_that_hangs_is_never_ended_as_a_stray(
    place: Place, live: Callable[..., Publisher]
) -> None:
    """As nvidia-smi does that waits inside a broken driver, where even SIGKILL does not reach it."""
    import subprocess

    tool = subprocess.Popen(["sleep", "600"])  # a child of this very process, which is the supervisor here
    try:
        live(stub={}, on={"ready": stop_soon})
        assert tool.poll() is None
    finally:
        tool.kill()
        tool.wait()


# -- stops, in every phase


def test_a_stop_while_it_waits_for_memory(place: Place, live: Callable[..., Publisher]) -> None:
    place.gpus(h100(0, memory_used=9000))
    told = live(stub={}, gpus=(GPU0,), on={"starting": stop_soon})
    assert told.phases[-1] == ("stopped", "stopped before it was started", 0)
    assert place.record("pid.json") == {}


def test_a_stop_while_it_starts(place: Place, live: Callable[..., Publisher]) -> None:
    told = live(stub={"LISTEN_DELAY": 600}, on={"starting": stop_soon})
    assert told.names == ["starting", "stopping", "stopped"]
    assert place.exits() == []


def test_a_stop_while_it_loads_does_not_wait_for_a_drain(place: Place, live: Callable[..., Publisher]) -> None:
    """vLLM swallows SIGTERM then: a short grace, and SIGKILL."""
    stub = {"LOAD_DELAY": 600, "IGNORE_TERM": "loading", "WORKERS": 1}
    told = live(stub=stub, stop_grace=600.0, loading_grace=0.2, on={"loading": stop_soon})
    assert told.phases[-1] == ("stopped", "stopped on SIGKILL", 0)


def test_a_stop_while_it_serves_lets_it_drain(place: Place, live: Callable[..., Publisher]) -> None:
    told = live(stub={"TERM_DELAY": 0.5}, loading_grace=0.1, stop_grace=20.0, on={"ready": stop_soon})
    assert told.phases[-1] == ("stopped", "stopped on SIGTERM", 0)
    assert "Shutting down" in place.log()


def test_a_stop_between_a_crash_and_the_next_start(
    place: Place, quick: QuickWake, live: Callable[..., Publisher]
) -> None:
    quick.meanwhile[1] = stop_soon  # in the delay before the second restart

    def pause(seconds: float, fds: object = ()) -> bool:
        QuickWake.pause(quick, seconds)
        quick.wait(quick.monotonic())
        return quick.stop_asked

    quick.pause = pause  # type: ignore[method-assign, assignment]
    told = live(stub={"EXIT": "1@0.2"})
    assert told.phases[-1] == ("stopped", "stopped while it waited to start again", 2)
    assert place.record("pid.json") == {}


def test_a_suspended_engine_is_stopped(place: Place, live: Callable[..., Publisher]) -> None:
    def ready() -> None:
        os.kill(place.leader(), signal.SIGSTOP)
        stop_soon()

    told = live(stub={}, on={"ready": ready})
    assert told.phases[-1] == ("stopped", "stopped on SIGTERM", 0)


@pytest.mark.parametrize("ends", [stop_soon, None], ids=["a-stop", "a-crash"])
def test_what_outlives_sigkill_is_named_and_its_record_kept(
    place: Place, live: Callable[..., Publisher], monkeypatch: pytest.MonkeyPatch, ends: Callable[[], None] | None
) -> None:
    """As a process does that waits inside a broken driver."""
    stuck = ProcessStat(5_000_000, "D", 1, 1, 1, 7)
    found = Run.find_members
    monkeypatch.setattr(Run, "find_members", lambda run: (*found(run), stuck))
    monkeypatch.setattr(ladder, "KILL_WAIT_SECONDS", 0.2)
    told = live(stub={}, stop_grace=0.1, on={"ready": ends or crash(place)})
    assert told.phases[-1] == ("failed", "unkillable: 5000000 live on after SIGKILL", 0)
    assert place.record("pid.json")["was_ready"]


# -- budgets while it runs


def test_new_budgets_are_read_on_sighup(place: Place, live: Callable[..., Publisher]) -> None:
    def starting() -> None:
        Path(place.folder().file("spec.json")).write_text(
            '{"bookkeeping": {"readiness": {"start_timeout": 0.2, "silence_timeout": 60},'
            ' "restart": {"policy": "always", "max_restarts": 5, "reset_after": 60}, "stop_grace": 1}}'
        )
        Path(place.folder().file("spec.json")).chmod(0o600)
        os.kill(os.getpid(), signal.SIGHUP)

    told = live(argv=("/bin/sh", "-c", "sleep 600"), start_timeout=600.0, on={"starting": starting})
    assert told.phases[-1] == ("failed", "not ready within 0.2 s", 0)


@pytest.mark.parametrize("spec", ["", "{", "{}", '{"bookkeeping": {"readiness": {}}}'], ids=repr)
def test_budgets_that_cannot_be_read_leave_the_old_ones(
    place: Place, live: Callable[..., Publisher], spec: str
) -> None:
    def starting() -> None:
        Path(place.folder().file("spec.json")).write_text(spec)
        os.kill(os.getpid(), signal.SIGHUP)

    told = live(argv=("/bin/sh", "-c", "sleep 600"), start_timeout=0.5, on={"starting": starting})
    assert told.phases[-1] == ("failed", "not ready within 0.5 s", 0)


# -- adoption


def another_parent(place: Place, orders: Orders) -> int:
    """Start the engine as a child of somebody else; its pid."""
    import subprocess

    with open(place.folder().log, "ab") as log:
        engine = subprocess.Popen(
            orders.argv,
            env=orders.env | {"LLMGW_LAUNCH": orders.launch},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    threading.Thread(target=engine.wait, daemon=True).start()  # reaps it, as init does
    return engine.pid


def test_an_adopted_engine_is_neither_signalled_nor_restarted_and_stops_when_asked(
    place: Place, live: Callable[..., Publisher]
) -> None:
    orders = place.orders(stub={})
    pid = another_parent(place, orders)
    leader = until(lambda: identify(pid))
    until(lambda: "startup complete" in place.log())

    def ready() -> None:
        assert is_alive(pid)
        assert place.record("pid.json")["pid"] == pid
        stop_soon()

    adoption = Adoption(leader, (leader,), was_ready=False, restarts=3)
    told = live(stub={}, launch=orders.launch, port=orders.target.port, adoption=adoption, on={"ready": ready})
    assert told.names == ["starting", "ready", "stopping", "stopped"]
    assert told.phases[-1][2] == 3
    assert not is_alive(pid)


def test_an_adopted_engine_that_crashes_comes_back(place: Place, live: Callable[..., Publisher]) -> None:
    orders = place.orders(stub={})
    pid = another_parent(place, orders)
    leader = until(lambda: identify(pid))
    until(lambda: "startup complete" in place.log())

    def ready() -> None:
        if place.leader() == pid:
            crash(place)()
        else:
            stop_soon()

    adoption = Adoption(leader, (leader,), was_ready=True, restarts=0)
    told = live(stub={}, launch=orders.launch, port=orders.target.port, adoption=adoption, on={"ready": ready})
    assert told.phases[-1] == ("stopped", "stopped on SIGTERM", 1)
    assert place.exits()[0]["signal"] in ("SIGKILL", None)  # where the kernel tells


def test_an_adoption_that_comes_too_late_keeps_the_record_of_what_may_live(
    place: Place, live: Callable[..., Publisher]
) -> None:
    mine = identify(os.getpid())
    assert mine is not None
    record = Path(place.folder().file("pid.json"))
    record.write_text("{}")
    told = live(stub={}, adoption=Adoption(ProcessId(mine.pid, mine.ticks - 1), (), was_ready=True, restarts=0))
    assert told.phases[-1][:2] == ("failed", f"cannot adopt process {mine.pid}: process {mine.pid} is gone")
    assert record.read_text() == "{}"
