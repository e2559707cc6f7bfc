"""Which processes an engine's records lead to: proven by boot, ticks, owner and mark, or nobody."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from llmgw_reconcile.discovery.processes import EngineProcesses, find_processes
from llmgw_reconcile.discovery.records import EngineRecords, PhaseRecord, PidRecord
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.host.proc import boot_id, identify
from llmgw_reconcile.model.observed import Phase, ProcessId
from tests.fakes import procs

LAUNCH = "feedc0dedeadbeef"
NOBODY = ProcessId(2**22 - 2, 1)  # above pid_max of most machines
BOOT = boot_id()


@contextmanager
def session(script: str, **env: str) -> Iterator[ProcessId]:
    """A shell that leads a session of its own; all of it is ended in the end."""
    shell = subprocess.Popen(["sh", "-c", script], env={"PATH": os.environ["PATH"], **env}, start_new_session=True)
    try:
        leader = identify(shell.pid)
        assert leader is not None
        yield leader
    finally:
        try:
            os.killpg(shell.pid, 9)
        except ProcessLookupError:
            pass
        shell.wait()


def pid_record(leader: ProcessId, **changed: Any) -> PidRecord:
    return PidRecord(BOOT, leader, os.geteuid(), LAUNCH, (leader,), was_ready=True)._replace(**changed)


def phase_record(phase: Phase, supervisor: ProcessId = NOBODY, **changed: Any) -> PhaseRecord:
    return PhaseRecord(BOOT, supervisor, phase, "2026-01-01T00:00:00Z", "", 0, LAUNCH)._replace(**changed)


def records(**given: Any) -> EngineRecords:
    return EngineRecords("chat@0", launch={"id": LAUNCH, "document": {"argv": ["x"]}}, **given)


def members_of(leader: ProcessId) -> set[int]:
    return {pid for pid in procs.processes_in_session(leader.pid) if pid != leader.pid}


def test_a_leader_that_lives_with_its_ticks_is_found_without_a_search() -> None:
    with session("sleep 60 & wait") as leader:
        found = find_processes(records(pid=pid_record(leader)), BOOT)
        assert (found.leader, found.leftovers) == (leader, ())
        assert found.family is not None
        assert found.family.launch == LAUNCH


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"boot_id": "another"}, id="of-another-boot"),
        pytest.param({"uid": 12345}, id="of-another-user"),
    ],
)
def test_a_pid_file_that_is_not_of_this_boot_and_user_names_nobody(changed: dict[str, Any]) -> None:
    with session("sleep 60") as leader:
        assert find_processes(records(pid=pid_record(leader, **changed)), BOOT) == EngineProcesses()


def test_a_pid_that_was_given_to_another_process_names_nobody() -> None:
    with session("sleep 60 & wait") as stranger:
        earlier = ProcessId(stranger.pid, stranger.ticks - 1)
        assert find_processes(records(pid=pid_record(earlier)), BOOT) == EngineProcesses()


def test_workers_that_outlive_their_leader_are_left_over() -> None:
    with session("sleep 60 & sleep 60 & wait") as leader:
        procs.until(lambda: len(members_of(leader)) == 2)
        members = tuple(identify(pid) for pid in members_of(leader))
        os.kill(leader.pid, 9)
        os.waitid(os.P_PID, leader.pid, os.WEXITED)
        found = find_processes(records(pid=pid_record(leader, members=members)), BOOT)
        assert found.leader is None
        assert set(found.leftovers) == set(members)


def test_an_engine_without_a_pid_file_is_found_by_its_mark_when_its_supervisor_is_gone() -> None:
    with session("exec sleep 60", LLMGW_LAUNCH=LAUNCH) as leader:
        found = find_processes(records(phase=phase_record(Phase.STARTING)), BOOT)
        assert found.leader == leader


def test_a_pid_file_of_an_earlier_launch_does_not_hide_the_engine_of_this_one() -> None:
    with session("exec sleep 60", LLMGW_LAUNCH=LAUNCH) as leader:
        stale = pid_record(NOBODY, launch="0000000000000000")
        assert find_processes(records(pid=stale, phase=phase_record(Phase.STARTING)), BOOT).leader == leader


def test_a_damaged_pid_file_is_replaced_by_the_mark() -> None:
    damage = Diagnostic(Severity.WARNING, "record-set-aside", "/x/pid.json", "not believed")
    with session("exec sleep 60", LLMGW_LAUNCH=LAUNCH) as leader:
        found = find_processes(records(phase=phase_record(Phase.READY), problems=(damage,)), BOOT)
        assert found.leader == leader


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param(phase_record(Phase.STOPPED), id="its-supervisor-said-that-it-ended"),
        pytest.param(phase_record(Phase.STARTING, boot_id="another"), id="it-was-started-in-another-boot"),
        pytest.param(phase_record(Phase.STARTING, identify(os.getpid()) or NOBODY), id="its-supervisor-lives"),
        pytest.param(None, id="nothing-was-ever-said"),
    ],
)
def test_the_mark_is_not_searched_for_where_no_crash_can_have_been(phase: PhaseRecord | None) -> None:
    with session("exec sleep 60", LLMGW_LAUNCH=LAUNCH):
        assert find_processes(records(phase=phase), BOOT) == EngineProcesses()


def test_the_mark_of_another_launch_is_a_strangers() -> None:
    with session("exec sleep 60", LLMGW_LAUNCH="0123456789abcdef"):
        assert find_processes(records(phase=phase_record(Phase.STARTING)), BOOT) == EngineProcesses()
