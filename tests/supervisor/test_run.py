"""One run: who belongs to it, who does not, and where its log lies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmgw_reconcile.host.proc import identify
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor.orders import Adoption
from llmgw_reconcile.supervisor.run import Run
from llmgw_reconcile.supervisor.wake import NEVER, Wake
from tests.fakes.procs import is_alive, until
from tests.fakes.supervised import Place

Start = Callable[..., Run]


@pytest.fixture
def start(place: Place) -> Iterator[Start]:
    runs: list[Run] = []

    def begin(script: str, **changes: object) -> Run:
        runs.append(Run.start(place.orders(argv=("/bin/sh", "-c", script), **changes)))
        return runs[-1]

    yield begin
    for run in runs:
        run.process.kill_group()
        for member in run.find_members():
            place.kill(member.pid)
        until(lambda run=run: run.poll() is not None and not run.find_members())  # type: ignore[misc]
        run.close()


def test_leader_and_children_are_its_members(place: Place, start: Start) -> None:
    run = start("sleep 600 & sleep 600 & echo two; wait")
    until(lambda: "two" in place.log())
    assert len(run.find_members()) == 3
    assert run.find_pids()[0] == run.process.id.pid
    assert {member.pid for member in run.members} == set(run.find_pids())


def test_a_tool_of_the_supervisor_is_no_member(start: Start) -> None:
    with subprocess.Popen(["sleep", "600"]) as tool:
        run = start("sleep 600")
        assert tool.pid not in run.find_pids()
        tool.kill()


def test_the_log_of_the_run_before_is_kept_beside_it(place: Place, start: Start) -> None:
    folder = place.folder()
    first = start("echo first")
    until(first.poll)
    start("echo second; sleep 600")
    until(lambda: "second" in place.log())
    assert Path(folder.previous_log).read_text() == "first\n"
    assert place.log() == "second\n"


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo"])
def test_what_is_planted_in_place_of_the_log_is_moved_aside(place: Place, start: Start, kind: str) -> None:
    folder = place.folder()
    victim = place.root / "victim"
    victim.write_text("unharmed")
    if kind == "symlink":
        os.symlink(victim, folder.log)
    elif kind == "hard link":
        os.link(victim, folder.log)
    else:
        os.mkfifo(folder.log)
    run = start("echo mine")
    until(run.poll)
    assert place.log() == "mine\n"
    assert victim.read_text() == "unharmed"


def test_a_failed_start_leaves_nothing_open(place: Place) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        Run.start(place.orders(argv=("/no/such/program",)))
    assert len(os.listdir("/proc/self/fd")) == before


def test_strays_that_became_our_children_are_reaped_and_the_leaders_end_is_kept(start: Start) -> None:
    run = start("exit 7")
    stray = subprocess.Popen(["/bin/true"])
    until(lambda: not is_alive(stray.pid))
    exit_ = until(run.poll)
    assert exit_.code == 7
    until(lambda: not os.path.exists(f"/proc/{stray.pid}") or run.poll() is None)
    stray.wait()


def test_members_are_remembered_while_they_live(start: Start) -> None:
    run = start("sleep 600")
    with subprocess.Popen(["sleep", "600"]) as other:
        member = until(lambda: identify(other.pid))
        run.remember((member,))
        run.remember((member,))
        assert run.members == tuple(sorted((run.process.id, member)))
        other.kill()
    run.remember(())
    assert run.members == (run.process.id,)


def test_an_adopted_engine_is_watched_with_what_is_recorded_of_it(place: Place) -> None:
    other = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    try:
        leader = until(lambda: identify(other.pid))
        orders = place.orders()
        Path(place.folder().log).write_text("of old\n")
        run = Run.adopt(orders, Adoption(leader, (leader,), was_ready=True, restarts=2))
        assert (run.process.id, run.was_ready, run.log.size) == (leader, True, 7)
        until(lambda: len(run.find_pids()) == 2)
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()
    assert run.poll() is not None
    run.close()


@pytest.mark.parametrize("spoil", ["gone", "fifo"])
def test_an_adoption_that_fails_leaves_nothing_open(place: Place, spoil: str) -> None:
    orders, mine = place.orders(), identify(os.getpid())
    assert mine is not None
    leader = mine
    if spoil == "gone":
        leader = ProcessId(mine.pid, mine.ticks - 1)
    else:
        os.mkfifo(place.folder().log)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):
        Run.adopt(orders, Adoption(leader, (), was_ready=False, restarts=0))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_quiet_log_is_looked_at_when_a_write_wakes_us_and_not_before(place: Place, start: Start, wake: Wake) -> None:
    run = start(f"while read line; do echo $line; done < {place.root}/feed & echo begun; sleep 600")
    feed = place.root / "feed"
    os.mkfifo(feed)
    until(lambda: "begun" in place.log())
    looks = []
    now = time.monotonic()
    while (at := run.bound_log(now, written=False)) != NEVER:
        looks.append(at)
        now = max(at, now)
        assert len(looks) < 20
    assert run.bound_log(now + 1000, written=False) == NEVER
    wake.saw(signal.SIGIO)
    with open(run_log(place), "ab") as log:
        log.write(b"news\n")
    wake.wait(time.monotonic() + 5)
    assert wake.saw(signal.SIGIO)
    assert run.bound_log(now, written=True) < NEVER


def run_log(place: Place) -> str:
    return place.folder().log


def test_a_python_engine_with_threads_is_one_member(place: Place, start: Start) -> None:
    code = "import threading, time; [threading.Thread(target=time.sleep, args=(600,)).start() for _ in range(8)]"
    run = start(f"exec {sys.executable} -ISc '{code}'")
    assert len(run.find_members()) == 1
