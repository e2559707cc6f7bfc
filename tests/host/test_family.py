"""Whose process is it: the proof that stands before every signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from llmgw_reconcile.host.family import Family, find_marked, living_members
from llmgw_reconcile.host.proc import ProcessStat, identify
from llmgw_reconcile.model.process import ProcessId
from tests.fakes.procs import is_alive, until
from tests.fakes.users import NOBODY, root_only

# Above every pid that the kernel gives out: nothing of these tables is found in the real /proc.
BASE = 5_000_000
LEADER, WORKER, CHILD, SUPERVISOR, TOOL, STRANGER = (BASE + number for number in range(1, 7))
INIT = 1


def process(
    pid: int, *, ticks: int = 100, ppid: int = INIT, sid: int = 0, pgid: int = 0, state: str = "S"
) -> ProcessStat:
    return ProcessStat(pid, state, ppid, pgid or sid or pid, sid or pid, ticks)


def leader(**changes: int | str) -> ProcessStat:
    return process(LEADER, ppid=SUPERVISOR)._replace(**changes)


def family(*recorded: int, **fields: object) -> Family:
    known = frozenset(ProcessId(pid, 100) for pid in recorded)
    return Family(ProcessId(LEADER, 100), known, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "table", "ours"),
    [
        pytest.param(family(), [], [], id="nothing-lives"),
        pytest.param(family(), [leader()], [LEADER], id="the-leader-alone"),
        pytest.param(
            family(),
            [process(WORKER, sid=LEADER), leader(), process(STRANGER)],
            [LEADER, WORKER],
            id="a-live-leaders-session-with-a-worker-that-lost-its-parent",
        ),
        pytest.param(
            family(),
            [leader(), process(WORKER, ppid=LEADER), process(CHILD, ppid=WORKER)],
            [LEADER, WORKER, CHILD],
            id="descendants-that-left-group-and-session",
        ),
        pytest.param(
            family(),
            [leader(ticks=999), process(WORKER, ppid=LEADER, sid=LEADER)],
            [],
            id="the-leaders-pid-was-reused-and-so-was-its-session",
        ),
        pytest.param(
            family(),
            [leader(sid=STRANGER, pgid=STRANGER), process(WORKER, pgid=LEADER, sid=STRANGER)],
            [LEADER],
            id="a-group-of-that-number-that-the-leader-did-not-found",
        ),
        pytest.param(
            family(),
            [leader(state="Z"), process(WORKER, sid=LEADER)],
            [WORKER],
            id="a-zombie-leader-is-dead-and-its-worker-is-ours",
        ),
        pytest.param(
            family(), [process(WORKER, sid=LEADER)], [], id="a-session-without-its-leader-that-nothing-proves"
        ),
        pytest.param(
            family(WORKER),
            [process(WORKER, sid=LEADER), process(CHILD, sid=LEADER)],
            [WORKER, CHILD],
            id="a-recorded-member-vouches-for-the-session-of-a-leader-that-is-gone",
        ),
        pytest.param(
            family(WORKER),
            [process(WORKER, sid=LEADER, ticks=999), process(CHILD, sid=LEADER)],
            [],
            id="a-recorded-member-whose-pid-was-reused-vouches-for-nothing",
        ),
        pytest.param(
            family(WORKER),
            [process(WORKER, sid=LEADER, state="Z"), process(CHILD, sid=LEADER)],
            [CHILD],
            id="a-zombie-vouches-too",
        ),
        pytest.param(
            family(WORKER),
            [process(WORKER), process(CHILD, ppid=WORKER), process(STRANGER)],
            [WORKER, CHILD],
            id="a-recorded-member-that-left-the-session-with-its-child",
        ),
        pytest.param(
            family(WORKER),
            [leader(ticks=999), process(WORKER)],
            [WORKER],
            id="a-recorded-member-outlives-a-leader-whose-pid-was-reused",
        ),
        pytest.param(
            family(reaper=SUPERVISOR),
            [process(SUPERVISOR), leader(), process(WORKER, ppid=SUPERVISOR), process(STRANGER)],
            [LEADER, WORKER],
            id="a-stray-that-the-supervisor-inherited",
        ),
        pytest.param(
            family(reaper=SUPERVISOR, bystanders=frozenset({ProcessId(TOOL, 100)})),
            [process(SUPERVISOR), leader(), process(TOOL, ppid=SUPERVISOR), process(CHILD, ppid=TOOL)],
            [LEADER],
            id="a-tool-of-the-supervisor-is-no-stray-and-neither-is-its-child",
        ),
        pytest.param(
            family(reaper=SUPERVISOR, bystanders=frozenset({ProcessId(TOOL, 7)})),
            [process(SUPERVISOR), process(TOOL, ppid=SUPERVISOR)],
            [TOOL],
            id="a-stray-that-got-the-pid-of-a-tool-that-ended",
        ),
        pytest.param(
            family(SUPERVISOR, reaper=SUPERVISOR),
            [process(SUPERVISOR, sid=LEADER), leader()],
            [LEADER],
            id="never-the-supervisor-itself",
        ),
    ],
)
def test_members_are_those_that_are_proven_and_no_others(
    known: Family, table: list[ProcessStat], ours: list[int]
) -> None:
    assert [stat.pid for stat in living_members(known, table)] == ours


# -- with the real kernel


@contextmanager
def session(code: str, env: dict[str, str] | None = None) -> Iterator[tuple[ProcessId, list[int]]]:
    """A leader of its own session that prints pids of its relatives; they are killed in the end, one by one."""
    leader = subprocess.Popen(
        [sys.executable, "-ISc", code], stdout=subprocess.PIPE, env=env or {}, start_new_session=True
    )
    pids: list[int] = []
    try:
        assert leader.stdout is not None
        pids = [int(word) for word in leader.stdout.readline().split()]
        identity = identify(leader.pid)
        assert identity is not None
        yield identity, pids
    finally:
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        leader.kill()
        leader.wait()
        assert leader.stdout is not None
        leader.stdout.close()


# A worker in the leader's session, and a stray that forked twice and founded a session of its own.
FAMILY = """
import os, signal, sys
def fork(do):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        do(w)
        signal.pause()
    os.close(w)
    return int(os.read(r, 20))
def tell(w):
    os.write(w, str(os.getpid()).encode())
def stray(w):
    os.setsid()
    if os.fork():
        os._exit(0)
    tell(w)
worker, stray = fork(tell), fork(stray)
os.waitpid(-1, 0)
print(worker, stray, flush=True)
signal.pause()
"""


def kill_leader(leader: ProcessId) -> None:
    os.kill(leader.pid, signal.SIGKILL)
    os.waitpid(leader.pid, 0)


def pids_of(family: Family) -> set[int]:
    return {stat.pid for stat in living_members(family)}


def test_a_stray_that_left_everything_is_known_by_the_launch_it_carries() -> None:
    with session(FAMILY, {"LLMGW_LAUNCH": "f00d"}) as (leader, (worker, stray)):
        assert pids_of(Family(leader, launch="f00d")) == {leader.pid, worker, stray}
        assert pids_of(Family(leader, launch="beef")) == {leader.pid, worker}


def test_the_mark_of_one_member_proves_a_session_whose_leader_is_gone() -> None:
    with session(FAMILY, {"LLMGW_LAUNCH": "f00d"}) as (leader, (worker, stray)):
        kill_leader(leader)
        assert pids_of(Family(leader, launch="f00d")) == {worker, stray}
        assert pids_of(Family(leader, launch="beef")) == set()
        assert pids_of(Family(leader)) == set()


def test_a_recorded_member_proves_what_erased_its_mark() -> None:
    with session(FAMILY) as (leader, (worker, stray)):
        recorded = frozenset(filter(None, map(identify, (worker, stray))))
        kill_leader(leader)
        assert pids_of(Family(leader, recorded, launch="f00d")) == {worker, stray}


def test_an_unwritten_pid_file_is_made_good_by_the_mark_of_the_leader() -> None:
    with session(FAMILY, {"LLMGW_LAUNCH": "f00d"}) as (leader, _):
        assert find_marked("f00d") == leader
        assert find_marked("beef") is None
        assert find_marked("") is None


def test_children_of_a_leader_that_is_gone_are_no_leader() -> None:
    with session(FAMILY, {"LLMGW_LAUNCH": "f00d"}) as (leader, (worker, stray)):
        os.kill(stray, signal.SIGKILL)
        until(lambda: not is_alive(stray))
        kill_leader(leader)
        assert is_alive(worker)
        assert find_marked("f00d") is None


@root_only
def test_another_user_cannot_make_his_process_ours_by_a_variable() -> None:
    process = subprocess.Popen(["/bin/sleep", "600"], env={"LLMGW_LAUNCH": "f00d"}, user=NOBODY, start_new_session=True)
    try:
        until(lambda: os.stat(f"/proc/{process.pid}").st_uid == NOBODY)
        assert find_marked("f00d") is None
        assert pids_of(Family(ProcessId(BASE, 1), launch="f00d")) == set()
    finally:
        process.kill()
        process.wait()


@root_only
def test_a_worker_that_became_another_user_is_ours_still() -> None:
    code = FAMILY.replace("worker, stray = fork(tell),", "worker, stray = fork(lambda w: (os.setuid(65534), tell(w))),")
    with session(code) as (leader, (worker, _)):
        assert worker in pids_of(Family(leader))
