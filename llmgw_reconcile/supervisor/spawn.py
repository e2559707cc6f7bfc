"""Start one engine process in a session of its own, watch it, and learn how it ended."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import struct
import time
from typing import NamedTuple

from llmgw_reconcile.host.family import LAUNCH_VARIABLE
from llmgw_reconcile.host.proc import is_alive, read_stat
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor.orders import Orders

# Signals that the C library keeps for itself, and those nobody can change.
FIXED_SIGNALS = {signal.SIGKILL, signal.SIGSTOP, 32, 33}
PIDFD_SIGNAL_PROCESS_GROUP = 1 << 2  # linux/pidfd.h, since Linux 6.9
PIDFD_GET_INFO = 0xC040FF0B  # linux/pidfd.h, since Linux 6.13: _IOWR(0xFF, 11, struct pidfd_info)
PIDFD_INFO_EXIT = 1 << 3  # since Linux 6.15
PIDFD_INFO_SIZE = 64  # the struct of version 0; the exit status is its last member
PIDFD_INFO_STATUS = 60
REAP_PATIENCE_SECONDS, REAP_POLL_SECONDS = 0.1, 0.002


class Exit(NamedTuple):
    """How a process ended; both unknown for an adopted one where the kernel does not tell."""

    code: int | None = None
    signal: str | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"killed by {self.signal}"
        return "ended" if self.code is None else f"exit code {self.code}"


class EngineProcess:
    """The engine's leader: our child, or an adopted process that we only watch."""

    def __init__(self, process: ProcessId, *, is_child: bool) -> None:
        """Raises ProcessLookupError when an adopted process is gone."""
        self.id = process
        self.pidfd = os.pidfd_open(process.pid)
        self._is_child = is_child
        self._exit: Exit | None = None
        if not is_child and not is_alive(process):  # the descriptor pins whoever has the pid now: look behind it
            os.close(self.pidfd)
            raise ProcessLookupError(f"process {process.pid} is gone")

    def poll(self) -> Exit | None:
        """How it ended, or None while it lives. Never waits for a living one."""
        if self._exit is None:
            self._exit = self._reap() if self._is_child else self._ask()
        return self._exit

    def kill_group(self) -> None:
        """SIGKILL to the whole group that it founded, in one step that no fork escapes, where the kernel can do that.

        The descriptor stands for this very group, also after the leader's end: never for a later one of that number.
        """
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL, None, PIDFD_SIGNAL_PROCESS_GROUP)
        except OSError:
            return

    def close(self) -> None:
        """Stop watching."""
        os.close(self.pidfd)

    def _reap(self) -> Exit | None:
        try:
            pid, status = os.waitpid(self.id.pid, os.WNOHANG)
        except ChildProcessError:
            return Exit()
        return _exit_of(status) if pid else None

    def _ask(self) -> Exit | None:
        """The kernel keeps the exit status for holders of a pidfd, from the moment when its parent has reaped it."""
        if is_alive(self.id):
            return None
        patience = time.monotonic() + REAP_PATIENCE_SECONDS
        while (stat := read_stat(self.id.pid)) is not None and stat.id == self.id and time.monotonic() < patience:
            time.sleep(REAP_POLL_SECONDS)
        request = struct.pack("=Q", PIDFD_INFO_EXIT).ljust(PIDFD_INFO_SIZE, b"\0")
        try:
            info = fcntl.ioctl(self.pidfd, PIDFD_GET_INFO, request)
        except OSError:
            return Exit()
        (mask,) = struct.unpack_from("=Q", info)
        (status,) = struct.unpack_from("=i", info, PIDFD_INFO_STATUS)
        return _exit_of(status) if mask & PIDFD_INFO_EXIT else Exit()


def spawn_engine(orders: Orders, folder: EngineDir) -> EngineProcess:
    """Start the engine. Raises OSError with its errno when the program cannot be run.

    Session and group of its own, default signal dispositions and mask, streams on /dev/null and the log in append
    mode. Working directory and limits are this process's, set by `prepare`.
    """
    log_flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    pid = os.posix_spawn(
        find_program(orders.argv[0], orders.env.get("PATH", os.defpath)),
        orders.argv,
        {**orders.env, LAUNCH_VARIABLE: orders.launch},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, folder.log, log_flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[number for number in range(1, signal.NSIG) if number not in FIXED_SIGNALS],
    )
    stat = read_stat(pid)  # there, even if it ended at once: nobody else reaps it
    return EngineProcess(ProcessId(pid, 0) if stat is None else stat.id, is_child=True)


def find_program(name: str, path: str) -> str:
    """Where a command lies that is named as in a shell: on the engine's own PATH. Raises FileNotFoundError."""
    if "/" in name:
        return name
    for folder in path.split(os.pathsep):
        if os.access(found := os.path.join(folder, name), os.X_OK) and os.path.isfile(found):
            return found
    raise FileNotFoundError(errno.ENOENT, f"there is none on its PATH ({path})")


def prepare(folder: EngineDir) -> None:
    """Set what the engine inherits: working directory, umask, descriptor and locked-memory limits, no core files."""
    os.chdir(folder.work)
    os.umask(0o022)
    for limit, want in ((resource.RLIMIT_NOFILE, None), (resource.RLIMIT_MEMLOCK, None), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        try:
            resource.setrlimit(limit, (hard if want is None else want, hard))
        except (OSError, ValueError):
            continue


def _exit_of(status: int) -> Exit:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return Exit(signal=signal.Signals(number).name)
        except ValueError:
            return Exit(signal=f"signal {number}")
    return Exit(code=os.waitstatus_to_exitcode(status))
