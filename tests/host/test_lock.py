"""One writer at a time, and the loser is told who."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llmgw_reconcile.errors import BusyError, NodeError
from llmgw_reconcile.host import lock
from llmgw_reconcile.host.lock import take_lock
from tests.fakes.procs import until

PACKAGE = str(Path(lock.__file__).parents[2])
HOLD = """
import sys, time; sys.path.insert(0, sys.argv[1])
from llmgw_reconcile.host.lock import take_lock
held = take_lock(sys.argv[2], purpose="llmgw apply")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


@contextmanager
def held_by_another(path: str) -> Iterator[subprocess.Popen[bytes]]:
    holder = subprocess.Popen([sys.executable, "-ISc", HOLD, PACKAGE, path], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        yield holder
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()


def test_the_loser_is_told_purpose_user_pid_and_time_of_the_holder(path: str) -> None:
    with (
        held_by_another(path) as holder,
        pytest.raises(
            BusyError,
            match=rf"busy: llmgw stop must wait for llmgw apply of \S+ \(pid {holder.pid}, since 20\S+Z\)",
        ),
    ):
        take_lock(path, purpose="llmgw stop")


def test_a_killed_holder_holds_nobody_up(path: str) -> None:
    with held_by_another(path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        take_lock(path, purpose="llmgw stop").release()


def test_whoever_waits_gets_it_when_it_is_let_go(path: str) -> None:
    with held_by_another(path) as holder:
        waiter = subprocess.Popen(
            [sys.executable, "-ISc", HOLD.replace('apply"', 'apply", wait=30'), PACKAGE, path], stdout=subprocess.PIPE
        )
        assert waiter.stdout is not None
        holder.kill()
        assert waiter.stdout.readline() == b"ready\n"
        waiter.kill()
        waiter.wait()
        waiter.stdout.close()


def test_whoever_waits_in_vain_is_told_after_that_time(path: str) -> None:
    with held_by_another(path), pytest.raises(BusyError):
        take_lock(path, purpose="llmgw stop", wait=0.1)


def test_let_go_it_is_free_and_letting_go_twice_is_fine(path: str) -> None:
    first = take_lock(path, purpose="one")
    with pytest.raises(BusyError):
        take_lock(path, purpose="two")  # a second descriptor, so another holder
    first.release()
    first.release()
    take_lock(path, purpose="two").release()


def test_children_do_not_inherit_it(path: str) -> None:
    held = take_lock(path, purpose="one")
    child = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        until(lambda: "sleep" in Path(f"/proc/{child.pid}/comm").read_text())
        held.release()
        take_lock(path, purpose="two").release()
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("note", [b"", b"{", b"[1]", b"\xff\xfe", b'{"pid": 1}'], ids=repr)
def test_a_note_that_cannot_be_read_hides_no_refusal(path: str, note: bytes) -> None:
    with held_by_another(path):
        Path(path).write_bytes(note)
        with pytest.raises(BusyError, match="must wait for another llmgw that just started"):
            take_lock(path, purpose="llmgw stop")


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo", "directory"])
def test_a_planted_lock_is_refused_and_its_target_unharmed(tmp_path: Path, path: str, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("unharmed")
    if kind == "symlink":
        Path(path).symlink_to(victim)
    elif kind == "hard link":
        Path(path).hardlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        Path(path).mkdir()
    with pytest.raises(NodeError, match=r"cannot open the lock .*/lock: "):
        take_lock(path, purpose="llmgw stop")
    assert victim.read_text() == "unharmed"


def test_a_folder_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="No such file or directory"):
        take_lock(str(tmp_path / "absent" / "lock"), purpose="llmgw stop")
