"""Processes as the kernel shows them: real ones, in every odd state that an engine may be found in."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from llmgw_reconcile.host import proc
from llmgw_reconcile.host.proc import ProcessStat
from llmgw_reconcile.model.process import ProcessId
from tests.fakes.procs import until
from tests.fakes.users import NOBODY, root_only, sleeper_of, told_as


@contextmanager
def python(code: str, *, ready: bool = True, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that prints a line when it is as the test wants it."""
    process = subprocess.Popen([sys.executable, "-ISc", code], stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
    try:
        assert process.stdout is not None
        assert not ready or process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


SLEEP = "print('ready', flush=True); import time; time.sleep(600)"


def test_this_process_is_itself() -> None:
    stat = proc.read_stat(os.getpid())
    assert stat is not None
    assert (stat.ppid, stat.pgid, stat.sid) == (os.getppid(), os.getpgid(0), os.getsid(0))
    assert proc.identify(os.getpid()) == stat.id
    assert proc.is_alive(stat.id)


def test_a_boot_has_an_id() -> None:
    assert len(proc.boot_id()) == 36
    assert proc.boot_id() == proc.boot_id()


def test_a_later_process_with_the_same_pid_is_another_one() -> None:
    mine = proc.identify(os.getpid())
    assert mine is not None
    assert not proc.is_alive(ProcessId(mine.pid, mine.ticks - 1))


def test_a_zombie_has_its_ids_and_is_dead() -> None:
    with python("", ready=False) as process:
        until(lambda: (stat := proc.read_stat(process.pid)) is not None and stat.state == "Z")
        stat = proc.read_stat(process.pid)
        assert stat is not None
        os.kill(process.pid, 0)  # signal 0 would call it alive
        assert not stat.is_alive
        assert proc.identify(process.pid) is None
        assert not proc.is_alive(stat.id)
        assert proc.command_line(process.pid) == ()


def test_a_process_whose_first_thread_ended_lives_while_others_go_on() -> None:
    code = (
        "import _thread, ctypes, os, time\n"
        "_thread.start_new_thread(lambda: (time.sleep(0.05), os.write(1, b'ready\\n'), time.sleep(600)), ())\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with python(code) as process:
        stat = until(lambda: (s := proc.read_stat(process.pid)) and s.state == "Z" and s)
        assert stat.threads == 2
        assert stat.is_alive
        assert proc.is_alive(stat.id)


def test_a_process_may_call_itself_what_it_likes() -> None:
    code = "open('/proc/self/comm', 'w').write(') Z 1 2 ('); " + SLEEP
    with python(code) as process:
        stat = proc.read_stat(process.pid)
        assert stat is not None
        assert (stat.pid, stat.ppid) == (process.pid, os.getpid())
        assert stat.is_alive


@pytest.mark.parametrize("pid", [0, -1, 4194305], ids=["zero", "negative", "above-every-pid"])
def test_a_pid_that_nobody_has_is_no_process(pid: int) -> None:
    assert proc.read_stat(pid) is None
    assert proc.identify(pid) is None
    assert proc.owner_of(pid) is None
    assert proc.command_line(pid) == ()
    assert proc.socket_inodes(pid) == frozenset()
    assert not proc.environment_holds(pid, "A=b")


def test_every_child_is_listed_however_many_there_are() -> None:
    code = (
        "import os, signal\n"
        "pids = []\n"
        "for _ in range(900):\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        signal.pause(); os._exit(0)\n"
        "    pids.append(pid)\n"
        "print('ready', flush=True)\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "for pid in pids: os.kill(pid, 9)\n"
    )
    code = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n" + code
    with python(code) as process:
        found = proc.children_of(process.pid)  # more text than a page of /proc holds
        process.terminate()
        process.wait()
    assert len(found) == 900


def test_descendants_are_found_by_parentage() -> None:
    code = "import subprocess; subprocess.run(['sh', '-c', 'sleep 600 & echo ready; wait'])"
    with python(code) as outer:
        expected = ["sh -c sleep 600 & echo ready; wait", "sleep 600"]
        until(lambda: [line(each.pid) for each in proc.descendants_of(outer.pid)] == expected)
        for process in reversed(proc.descendants_of(outer.pid)):
            proc.send_signal(process, signal.SIGKILL)


def line(pid: int) -> str:
    return " ".join(proc.command_line(pid))


def test_arguments_are_read_as_they_are() -> None:
    with python(SLEEP) as process:
        assert proc.command_line(process.pid) == (sys.executable, "-ISc", SLEEP)
    with python(SLEEP + "\n", close_fds=True) as process:
        assert proc.command_line(process.pid)[2] == SLEEP + "\n"


def test_arguments_longer_than_a_page_are_read_whole() -> None:
    code = SLEEP + "#" + "x" * 100_000
    with python(code) as process:
        assert proc.command_line(process.pid)[2] == code


def test_a_variable_is_found_behind_a_large_environment() -> None:
    environment = {"LARGE": "x" * 120_000, "MARK": "this one"}
    with python(SLEEP, env=environment) as process:
        assert proc.environment_holds(process.pid, "MARK=this one")
        assert not proc.environment_holds(process.pid, "MARK=this")


def test_a_variable_that_a_process_erased_is_not_there() -> None:
    code = (
        "import ctypes\n"
        "fields = open('/proc/self/stat').read().rpartition(')')[2].split()\n"
        "start, end = int(fields[47]), int(fields[48])\n"
        "ctypes.memset(start, 0, end - start)\n"
    )
    with python(code + SLEEP, env={"MARK": "this one"}) as process:
        assert not proc.environment_holds(process.pid, "MARK=this one")


def test_open_sockets_are_known_by_their_inodes() -> None:
    with socket.socket() as mine:
        assert os.fstat(mine.fileno()).st_ino in proc.socket_inodes(os.getpid())


def test_the_owner_is_the_effective_user() -> None:
    assert proc.owner_of(os.getpid()) == os.geteuid()


@root_only
def test_the_owner_of_a_process_that_may_not_be_dumped_is_its_user() -> None:
    with sleeper_of(NOBODY) as pid:
        assert os.stat(f"/proc/{pid}/stat").st_uid == 0  # what most of its files say
        assert proc.owner_of(pid) == NOBODY


def test_a_signal_reaches_exactly_the_process_that_is_meant() -> None:
    with python(SLEEP) as process:
        stat = proc.read_stat(process.pid)
        assert stat is not None
        assert not proc.send_signal(ProcessId(stat.pid, stat.ticks + 1), signal.SIGKILL)
        assert process.poll() is None
        assert proc.send_signal(stat.id, signal.SIGTERM)
        assert process.wait(5) == -signal.SIGTERM
        assert not proc.send_signal(stat.id, signal.SIGTERM)


def test_a_zombie_is_not_signalled() -> None:
    with python("", ready=False) as process:
        stat = until(lambda: (s := proc.read_stat(process.pid)) and s.state == "Z" and s)
        assert not proc.send_signal(stat.id, signal.SIGKILL)


@root_only
def test_another_users_process_is_not_permitted() -> None:
    with python(SLEEP) as victim:
        target = proc.identify(victim.pid)
        assert target is not None
        assert told_as(NOBODY, lambda: proc.send_signal(target, signal.SIGTERM)) == "PermissionError"
        assert victim.poll() is None


def test_all_processes_are_listed() -> None:
    found = {stat.pid: stat for stat in proc.all_stats()}
    assert isinstance(found[os.getpid()], ProcessStat)
    assert found[os.getpid()].ppid == os.getppid()
