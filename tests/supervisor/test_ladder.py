"""The stop ladder: rung by rung with a fake clock, and on real processes that do not want to go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.family import Family, living_members
from llmgw_reconcile.host.proc import ProcessStat, identify, send_signal
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor.ladder import StopOutcome, StopResult, kill_family, stop_family
from llmgw_reconcile.supervisor.spawn import EngineProcess
from tests.fakes.clock import FakeClock
from tests.fakes.procs import is_alive, until
from tests.fakes.users import NOBODY, root_only, told_as

LEADER, WORKER, OTHER = (ProcessId(5_000_000 + number, 1) for number in range(1, 4))
TERM, CONT, KILL = signal.SIGTERM, signal.SIGCONT, signal.SIGKILL


class FakeFamily:
    """Members with a fake clock; what a signal does to each is said by the test."""

    def __init__(self, *members: ProcessId) -> None:
        self.living = list(members)
        self.clock = FakeClock()
        self.sent: list[tuple[float, str, ProcessId]] = []
        self.looks = 0
        self.reactions: dict[tuple[ProcessId, int], Callable[[], None]] = {}

    def find(self) -> tuple[ProcessStat, ...]:
        self.looks += 1
        return tuple(ProcessStat(pid, "S", 1, LEADER.pid, LEADER.pid, ticks) for pid, ticks in self.living)

    def send(self, process: ProcessId, number: int) -> bool:
        assert self.looks, "a signal without a proof"
        self.sent.append((self.clock.now, signal.Signals(number).name, process))
        self.reactions.get((process, number), lambda: None)()
        return True

    def dies(self, process: ProcessId, *, on: int, after: float = 0.0) -> None:
        """It ends so long after that signal."""

        def end() -> None:
            if process in self.living:
                self.living.remove(process)

        def react() -> None:
            if after:
                self.clock.at(self.clock.now + after, end)
            else:
                end()

        self.reactions[process, on] = react

    def stop(self, grace: float = 60.0) -> StopResult:
        return stop_family(self.find, LEADER, grace=grace, clock=self.clock, send=self.send)

    def signals(self) -> list[tuple[str, ProcessId]]:
        return [(name, process) for _, name, process in self.sent]


def test_nothing_is_signalled_where_nothing_lives() -> None:
    family = FakeFamily()
    assert family.stop() == StopResult(StopOutcome.ALREADY_GONE)
    assert family.sent == []
    assert family.clock.now == 0


def test_the_leader_alone_is_asked_and_woken() -> None:
    family = FakeFamily(LEADER, WORKER)
    family.dies(LEADER, on=TERM, after=1.0)
    family.dies(WORKER, on=TERM)
    family.clock.at(1.5, lambda: family.living.clear())
    assert family.stop() == StopResult(StopOutcome.TERMINATED)
    assert family.signals() == [("SIGTERM", LEADER), ("SIGCONT", LEADER)]
    assert 1.5 <= family.clock.now < 2.0


def test_a_drain_may_take_all_of_the_grace() -> None:
    family = FakeFamily(LEADER)
    family.dies(LEADER, on=TERM, after=59.9)
    assert family.stop(grace=60.0) == StopResult(StopOutcome.TERMINATED)


def test_a_leader_that_ignores_it_is_killed_after_exactly_the_grace() -> None:
    family = FakeFamily(LEADER, WORKER)
    family.dies(LEADER, on=KILL)
    family.dies(WORKER, on=KILL)
    assert family.stop(grace=3.0) == StopResult(StopOutcome.KILLED)
    assert family.sent[2:] == [(3.0, "SIGKILL", LEADER), (3.0, "SIGKILL", WORKER)]
    assert family.clock.now == 3.02


def test_workers_that_outlive_their_leader_get_four_seconds_of_a_long_grace() -> None:
    family = FakeFamily(LEADER, WORKER)
    family.dies(LEADER, on=TERM)
    family.dies(WORKER, on=KILL)
    assert family.stop(grace=60.0) == StopResult(StopOutcome.KILLED)
    assert family.sent[2:] == [(4.0, "SIGKILL", WORKER)]


def test_workers_get_no_more_than_a_short_grace() -> None:
    family = FakeFamily(LEADER, WORKER)
    family.dies(LEADER, on=TERM)
    family.dies(WORKER, on=KILL)
    assert family.stop(grace=1.0) == StopResult(StopOutcome.KILLED)
    assert family.sent[2:] == [(1.0, "SIGKILL", WORKER)]


def test_workers_of_a_leader_that_is_gone_are_killed_at_once() -> None:
    family = FakeFamily(WORKER, OTHER)
    family.dies(WORKER, on=KILL)
    family.dies(OTHER, on=KILL)
    assert family.stop() == StopResult(StopOutcome.KILLED)
    assert family.signals() == [("SIGKILL", WORKER), ("SIGKILL", OTHER)]


def test_who_lives_ten_seconds_after_sigkill_is_unkillable() -> None:
    family = FakeFamily(LEADER, WORKER)
    family.dies(LEADER, on=KILL)
    result = family.stop(grace=2.0)
    assert result == StopResult(StopOutcome.UNKILLABLE, (WORKER,))
    assert not result.is_stopped
    assert 12.0 <= family.clock.now < 12.1


def test_the_end_is_bounded_by_grace_and_ten_seconds() -> None:
    family = FakeFamily(LEADER)
    family.stop(grace=5.0)
    assert 15.0 <= family.clock.now < 15.1


@pytest.mark.parametrize("error", [PermissionError, OSError], ids=["not-permitted", "no-descriptors-left"])
def test_who_may_not_be_signalled_is_no_success(error: type[OSError]) -> None:
    family = FakeFamily(LEADER)

    def refuse(process: ProcessId, number: int) -> bool:
        raise error

    result = stop_family(family.find, LEADER, grace=1.0, clock=family.clock, send=refuse)
    assert result == StopResult(StopOutcome.UNKILLABLE, (LEADER,))


def test_members_that_are_born_while_others_are_killed_are_killed_too() -> None:
    family = FakeFamily(WORKER)
    children = [ProcessId(6_000_000 + number, 1) for number in range(5)]

    def fork(process: ProcessId) -> Callable[[], None]:
        def react() -> None:
            family.living.remove(process)
            if children:
                child = children.pop(0)
                family.living.append(child)
                family.reactions[child, KILL] = fork(child)

        return react

    family.reactions[WORKER, KILL] = fork(WORKER)
    assert family.stop() == StopResult(StopOutcome.KILLED)
    assert [process.pid for _, process in family.signals()] == [WORKER.pid, *range(6_000_000, 6_000_005)]


def test_the_group_is_killed_at_once_and_only_when_the_grace_is_over() -> None:
    family = FakeFamily(LEADER, WORKER)
    moments: list[float] = []

    def kill_group() -> None:
        moments.append(family.clock.now)
        family.living.clear()

    result = stop_family(family.find, LEADER, grace=3.0, clock=family.clock, send=family.send, kill_group=kill_group)
    assert (result, moments) == (StopResult(StopOutcome.KILLED), [3.0])


def test_waiting_does_what_it_is_told_between_two_looks() -> None:
    family = FakeFamily(LEADER)
    family.dies(LEADER, on=TERM, after=1.0)
    calls: list[float] = []
    stop_family(
        family.find,
        LEADER,
        grace=9,
        clock=family.clock,
        send=family.send,
        between=lambda: calls.append(family.clock.now),
    )
    assert calls[0] == 0.0
    assert len(calls) == len(set(calls)) > 3


def test_what_is_left_after_a_crash_may_go_by_itself() -> None:
    family = FakeFamily(WORKER)
    family.clock.at(0.3, family.living.clear)
    result = kill_family(family.find, patience=0.5, clock=family.clock, send=family.send)
    assert (result, family.sent) == (StopResult(StopOutcome.ALREADY_GONE), [])


def test_what_is_left_after_a_crash_and_that_time_is_killed() -> None:
    family = FakeFamily(WORKER)
    family.dies(WORKER, on=KILL)
    result = kill_family(family.find, patience=0.5, clock=family.clock, send=family.send)
    assert (result, family.sent) == (StopResult(StopOutcome.KILLED), [(0.5, "SIGKILL", WORKER)])


# -- real processes


@contextmanager
def engine(code: str) -> Iterator[tuple[EngineProcess, Family]]:
    """A session that prints a line when it is as the test wants it; nothing of it may live in the end."""
    launch = os.urandom(8).hex()
    process = subprocess.Popen(
        [sys.executable, "-ISc", code], stdout=subprocess.PIPE, env={"LLMGW_LAUNCH": launch}, start_new_session=True
    )
    assert process.stdout is not None
    leader = None
    try:
        process.stdout.readline()
        leader = identify(process.pid)
        assert leader is not None
        yield EngineProcess(leader, is_child=True), Family(leader, launch=launch)
    finally:
        if leader is not None:
            while left := living_members(Family(leader, launch=launch)):
                for stat in left:
                    send_signal(stat.id, KILL)
        process.kill()
        process.wait()
        process.stdout.close()


def stop(process: EngineProcess, family: Family, grace: float = 0.3) -> StopResult:
    return stop_family(
        lambda: living_members(family),
        family.leader,
        grace=grace,
        clock=SystemClock(),
        between=lambda: process.poll() and None,
        kill_group=process.kill_group,
    )


READY = "print('ready', flush=True)\n"


def test_a_suspended_engine_is_woken_and_ends_by_itself() -> None:
    code = "import signal, os\nsignal.signal(15, lambda *_: os._exit(0))\n" + READY + "while True: signal.pause()"
    with engine(code) as (process, family):
        os.kill(family.leader.pid, signal.SIGSTOP)
        until(lambda: (stat := living_members(family)) and stat[0].state == "T")
        assert stop(process, family, grace=10).outcome is StopOutcome.TERMINATED
        exit_ = process.poll()
        assert exit_ is not None
        assert exit_.code == 0


def test_leader_and_workers_that_ignore_everything_are_gone_in_time() -> None:
    code = (
        "import os, signal\n"
        "for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        while True: signal.pause()\n" + READY + "while True: signal.pause()"
    )
    with engine(code) as (process, family):
        assert len(living_members(family)) == 5
        assert stop(process, family).outcome is StopOutcome.KILLED
        assert living_members(family) == ()


def test_an_engine_that_forks_and_forks_leaves_no_survivor() -> None:
    code = (
        "import os, signal, time\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        "end = time.monotonic() + 30\n"
        "if os.fork() == 0:\n"
        "    while time.monotonic() < end:\n"
        "        if os.fork(): os._exit(0)\n"  # always another pid, gone before anybody has looked at it
        "    os._exit(0)\n" + READY + "signal.pause()\n"
    )
    with engine(code) as (process, family):
        assert stop(process, family, grace=0.1).is_stopped
        assert living_members(family) == ()


class Hurry(FakeClock):
    """A clock on which every wait takes a second at least."""

    def sleep(self, seconds: float) -> None:
        super().sleep(max(1.0, seconds))


@root_only
def test_another_users_engine_is_reported_as_it_is() -> None:
    with engine("import signal\n" + READY + "signal.pause()") as (_, family):

        def attempt() -> StopOutcome:
            return stop_family(lambda: living_members(family), family.leader, grace=0, clock=Hurry()).outcome

        assert told_as(NOBODY, attempt) == "unkillable"
        assert is_alive(family.leader.pid)
