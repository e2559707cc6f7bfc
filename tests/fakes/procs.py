"""What the kernel says: processes that belong to a folder, strangers that must survive, ports."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")
_given: set[int] = set()


def free_port(count: int = 1) -> int:
    """The first of so many adjacent ports that nobody listens on, below the ephemeral range, never the same twice."""
    while True:
        first = random.randrange(12_000, 31_000)
        block = range(first, first + count)
        if not _given.intersection(block) and all(map(_is_free, block)):
            _given.update(block)
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def listening_ports() -> set[int]:
    """TCP ports that anybody listens on."""
    lines = [line for family in ("tcp", "tcp6") for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]]
    return {int(line.split()[1].rpartition(":")[2], 16) for line in lines if line.split()[3] == "0A"}


def count_listeners(port: int) -> int:
    """How many sockets listen on that TCP port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


def is_alive(pid: int) -> bool:
    """Whether that process exists and is no zombie."""
    return _stat(pid, 0) not in ("", "Z", "X")


def rests_of(pid: int) -> int:
    """How often it went to sleep of its own accord: once more, and what it was woken for is done."""
    lines = _bytes(pid, "status").decode().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches")), 0)


def parent_of(pid: int) -> int:
    """Its parent's pid; 0 when it is gone."""
    return int(_stat(pid, 1) or 0)


def ticks_of(pid: int) -> int:
    """When it started, in clock ticks since boot; 0 when it is gone."""
    return int(_stat(pid, 19) or 0)


def _stat(pid: int, field: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field]
    except OSError:
        return ""


def command_line(pid: int) -> str:
    """Its arguments, joined by blanks; empty when it is gone."""
    return _bytes(pid, "cmdline").rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")


def _bytes(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def belongs_to(pid: int, folder: Path) -> bool:
    """Whether command line, environment, working directory or an open file of that process names the folder."""
    if not is_alive(pid):
        return False
    named = str(folder).encode()
    return named in _bytes(pid, "cmdline") or named in _bytes(pid, "environ") or str(folder) in _links(pid)


def _links(pid: int) -> str:
    found = []
    for name in ("cwd", *(f"fd/{number}" for number in _names(f"/proc/{pid}/fd"))):
        try:
            found.append(os.readlink(f"/proc/{pid}/{name}"))
        except OSError:  # closed, or ended, between two looks
            continue
    return "\n".join(found)


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def processes_of(folder: Path) -> dict[int, str]:
    """Live processes that belong to the folder, pid -> command line; this one is left out."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    return {pid: command_line(pid) for pid in pids if belongs_to(pid, folder)}


def processes_in_session(leader: int) -> set[int]:
    """Live processes of the session that this pid founded."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid for pid in pids if is_alive(pid) and _stat(pid, 3) == str(leader)}


def kill(pid: int, folder: Path, signum: signal.Signals = signal.SIGKILL) -> None:
    """Signal a process after a proof, which holds until the signal, that it belongs to the folder.

    SIGKILL waits for the end.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not belongs_to(pid, folder):
            return
        signal.pidfd_send_signal(descriptor, signum)
        if signum is signal.SIGKILL:
            select.select([descriptor], [], [], 5)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


def until(question: Callable[[], Answer], seconds: float = 10, what: str = "") -> Answer:
    """The first true answer; AssertionError when there is none in that time."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or question}"
        time.sleep(0.02)
    return answer


@contextmanager
def listener(port: int, address: str = "127.0.0.1") -> Iterator[int]:
    """A stranger's process that listens on a port; its pid."""
    code = f"import socket, time; s = socket.create_server(({address!r}, {port})); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-ISc", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@contextmanager
def bystanders() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Innocent processes that look more or less like engines; a test that harms one of them fails."""
    sleep = shutil.which("sleep") or "sleep"
    mark = {"LLMGW_ENGINE": "chat@0", "LLMGW_LAUNCH": "0123456789abcdef"}  # an engine of another state directory
    innocents = {
        "a sleep in its own session": subprocess.Popen([sleep, "600"], start_new_session=True),
        "a renamed worker": subprocess.Popen(["VLLM::EngineCore", "600"], executable=sleep, start_new_session=True),
        "an engine with another's mark": subprocess.Popen(
            ["/opt/vllm/bin/vllm", "-c", "sleep 600; exit", "serve", "chat", "--port", "8000"],
            executable=shutil.which("sh"),
            env=mark,
            start_new_session=True,
        ),
    }
    if os.geteuid() == 0:
        innocents["another user's process"] = subprocess.Popen([sleep, "600"], start_new_session=True, user=65534)
    try:
        yield innocents
        harmed = {name: one.returncode for name, one in innocents.items() if one.poll() is not None}
        assert not harmed, f"innocent processes were signalled: {harmed}"
    finally:
        for one in innocents.values():
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
