"""One engine process: begun, watched, and its end understood."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw_reconcile.host.proc import identify
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor import spawn
from llmgw_reconcile.supervisor.orders import Orders
from llmgw_reconcile.supervisor.spawn import EngineProcess, Exit, find_program, prepare, spawn_engine
from tests.fakes.procs import is_alive, until
from tests.fakes.supervised import Place


@pytest.fixture
def begun() -> Iterator[list[EngineProcess]]:
    """Processes to be closed in the end, and killed if need be."""
    processes: list[EngineProcess] = []
    yield processes
    for process in processes:
        process.kill_group()
        until(lambda process=process: process.poll() is not None)  # type: ignore[misc]
        process.close()


def start(place: Place, begun: list[EngineProcess], *argv: str, **changes: object) -> EngineProcess:
    orders = place.orders(argv=argv, **changes)
    process = spawn_engine(orders, EngineDir(orders.folder))
    begun.append(process)
    return process


def end_of(process: EngineProcess) -> Exit:
    return until(process.poll)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("script", "expected", "words"),
    [
        ("exit 0", Exit(code=0), "exit code 0"),
        ("exit 7", Exit(code=7), "exit code 7"),
        ("exit 255", Exit(code=255), "exit code 255"),
        ("kill -9 $$", Exit(signal="SIGKILL"), "killed by SIGKILL"),
        ("kill -7 $$", Exit(signal="SIGBUS"), "killed by SIGBUS"),
        ("kill -SEGV $$", Exit(signal="SIGSEGV"), "killed by SIGSEGV"),
    ],
)
def test_an_end_is_a_code_or_a_signal_by_name(
    place: Place, begun: list[EngineProcess], script: str, expected: Exit, words: str
) -> None:
    exit_ = end_of(start(place, begun, "/bin/sh", "-c", script))
    assert (exit_, str(exit_)) == (expected, words)


def test_a_signal_without_a_name_is_a_number(place: Place, begun: list[EngineProcess]) -> None:
    code = "import os; os.kill(os.getpid(), 50)"
    assert end_of(start(place, begun, sys.executable, "-ISc", code)) == Exit(signal="signal 50")


def test_an_end_of_which_nothing_is_known_says_so_much() -> None:
    assert str(Exit()) == "ended"


def test_a_living_engine_has_no_end_and_is_identified(place: Place, begun: list[EngineProcess]) -> None:
    process = start(place, begun, "/bin/sleep", "600")
    assert process.poll() is None
    assert process.id == identify(process.id.pid)


def test_one_that_ended_at_once_was_somebody(place: Place, begun: list[EngineProcess]) -> None:
    process = start(place, begun, "/bin/true")
    time.sleep(0.01)
    assert process.id.ticks > 0
    assert end_of(process) == Exit(code=0)


def test_it_leads_a_session_of_its_own_and_carries_its_launch(place: Place, begun: list[EngineProcess]) -> None:
    process = start(place, begun, "/bin/sleep", "600", launch="f00d")
    assert os.getsid(process.id.pid) == os.getpgid(process.id.pid) == process.id.pid
    until(lambda: b"LLMGW_LAUNCH=f00d" in Path(f"/proc/{process.id.pid}/environ").read_bytes())


def test_its_output_is_appended_to_the_log_and_its_input_is_empty(place: Place, begun: list[EngineProcess]) -> None:
    folder = place.folder()
    Path(folder.log).write_text("before\n")
    end_of(start(place, begun, "/bin/sh", "-c", "echo out; echo err >&2; cat; echo end"))
    assert Path(folder.log).read_text() == "before\nout\nerr\nend\n"


@pytest.mark.parametrize(
    ("program", "error"),
    [
        pytest.param("/no/such/program", FileNotFoundError, id="absent"),
        pytest.param("no-such-program", FileNotFoundError, id="not-on-its-path"),
        pytest.param("/etc/passwd", PermissionError, id="not-executable"),
        pytest.param("/", PermissionError, id="a-folder"),
    ],
)
def test_what_cannot_be_run_is_an_error_with_its_reason(place: Place, program: str, error: type[OSError]) -> None:
    orders = place.orders(argv=(program,))
    with pytest.raises(error):
        spawn_engine(orders, EngineDir(orders.folder))


def test_a_file_that_is_no_program_is_an_error(place: Place) -> None:
    orders = place.orders(argv=(place.script("broken", "\x7fELF is a lie"),))
    with pytest.raises(OSError, match="Exec format error"):
        spawn_engine(orders, EngineDir(orders.folder))


def test_an_argument_that_is_too_long_is_an_error(place: Place) -> None:
    orders = place.orders(argv=("/bin/true", "x" * 200_000))
    with pytest.raises(OSError, match="Argument list too long"):
        spawn_engine(orders, EngineDir(orders.folder))


def test_a_prefix_is_found_on_the_engines_own_path(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    place.script("prefix", '#!/bin/sh\nexec "$@"\n')
    path = f"/nowhere:{place.root}/bin:/usr/bin:/bin"
    assert find_program("prefix", path) == f"{place.root}/bin/prefix"
    assert find_program("/opt/x", path) == "/opt/x"
    with pytest.raises(FileNotFoundError, match=r"there is none on its PATH \(/nowhere\)"):
        find_program("prefix", "/nowhere")


def test_a_folder_on_the_path_is_no_program(place: Place) -> None:
    (place.root / "bin" / "prefix").mkdir()
    with pytest.raises(FileNotFoundError):
        find_program("prefix", f"{place.root}/bin")


# -- adopted


def test_an_adopted_engine_that_lives_has_no_end(place: Place) -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as other:
        leader = until(lambda: identify(other.pid))
        process = EngineProcess(leader, is_child=False)
        assert process.poll() is None
        other.kill()
    process.close()


def test_an_engine_that_is_gone_cannot_be_adopted() -> None:
    with subprocess.Popen(["/bin/true"]) as other:
        leader = ProcessId(other.pid, 1)
    with pytest.raises(ProcessLookupError):
        EngineProcess(leader, is_child=False)


def test_whoever_got_its_pid_is_not_adopted() -> None:
    before = len(os.listdir("/proc/self/fd"))
    mine = identify(os.getpid())
    assert mine is not None
    with pytest.raises(ProcessLookupError):
        EngineProcess(ProcessId(mine.pid, mine.ticks - 1), is_child=False)
    assert len(os.listdir("/proc/self/fd")) == before


def kernel_tells_exits() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor)) >= (6, 15)


@pytest.mark.skipif(not kernel_tells_exits(), reason="a kernel before 6.15 tells no stranger how a process ended")
@pytest.mark.parametrize(("script", "expected"), [("exit 37", Exit(code=37)), ("kill -9 $$", Exit(signal="SIGKILL"))])
def test_the_kernel_tells_how_an_adopted_engine_ended(script: str, expected: Exit) -> None:
    """The parent, another process, reaps it a moment later."""
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sh', '-c', 'sleep 0.3; ' + sys.argv[1]])\n"
        "print(child.pid, flush=True)\n"
        "os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)\n"
        "time.sleep(0.02)\n"
        "child.wait()\n"
    )
    parent = subprocess.Popen([sys.executable, "-ISc", code, script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    leader = identify(int(parent.stdout.readline()))
    assert leader is not None
    process = EngineProcess(leader, is_child=False)
    assert end_of(process) == expected
    process.close()
    parent.wait()
    parent.stdout.close()


def test_an_adopted_engine_whose_parent_never_reaps_it_ended_all_the_same() -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as other:
        leader = until(lambda: identify(other.pid))
        process = EngineProcess(leader, is_child=False)
        other.send_signal(signal.SIGKILL)
        until(lambda: not is_alive(other.pid))
        before = time.monotonic()
        assert process.poll() == Exit()
        assert time.monotonic() - before < 1
        process.close()


def test_a_group_is_killed_in_one_step(place: Place, begun: list[EngineProcess]) -> None:
    folder = place.folder()
    process = start(place, begun, "/bin/sh", "-c", "sleep 600 & sleep 600 & echo $!; wait")
    worker = int(until(lambda: Path(folder.log).read_text().strip()))
    process.kill_group()
    assert end_of(process) == Exit(signal="SIGKILL")
    until(lambda: not is_alive(worker))


def test_killing_a_group_that_is_gone_harms_nobody(place: Place, begun: list[EngineProcess]) -> None:
    process = start(place, begun, "/bin/true")
    end_of(process)
    process.kill_group()


# -- what an engine inherits


def told_by_a_fork(orders: Orders) -> str:
    """What `prepare` left behind, in a process that it may spoil."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            os.umask(0o077)
            prepare(EngineDir(orders.folder))
            found = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("NOFILE", "MEMLOCK")}
            raised = all(soft == hard for soft, hard in found.values())
            core = resource.getrlimit(resource.RLIMIT_CORE)[0]
            os.write(writer, f"{os.getcwd()} {os.umask(0):o} {raised} {core}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


def test_folder_mask_and_limits_are_set_for_it(place: Place) -> None:
    orders = place.orders()
    assert told_by_a_fork(orders) == f"{EngineDir(orders.folder).work} 22 True 0"


def test_the_number_for_asking_is_the_kernels() -> None:
    assert spawn.PIDFD_GET_INFO == (3 << 30) | (spawn.PIDFD_INFO_SIZE << 16) | (0xFF << 8) | 11
