"""Read processes from /proc: identity, state, family, command line, and the signals that rest on them.

Identity is (pid, start ticks) within one boot: the kernel gives no pid twice to a living process, and the start ticks
(proc_pid_stat(5), field 22) tell a reused pid from the old one. Signals go through pidfds, so that no pid can be
reused between the check and the signal.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import NamedTuple

from llmgw_reconcile.model.process import ProcessId

DEAD_STATES = "ZX"  # a zombie keeps its pid and answers signal 0, but runs no more
READ_LIMIT = 4 << 20  # arguments and environment together may have 2 MiB on Linux's defaults
CHUNK = 1 << 16


class ProcessStat(NamedTuple):
    """One line of /proc/PID/stat, as far as it is of interest."""

    pid: int
    state: str  # "R", "S", "D", "T", "Z", …
    ppid: int
    pgid: int
    sid: int
    ticks: int
    threads: int = 1

    @property
    def id(self) -> ProcessId:
        """What names the process for good."""
        return ProcessId(self.pid, self.ticks)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs or may run again.

        A process shows as a zombie as soon as its first thread ended; while others go on, it lives and holds memory.
        """
        return self.state not in DEAD_STATES or self.threads > 1


def boot_id() -> str:
    """The id of this boot: ticks of another boot say nothing."""
    return _read("/proc/sys/kernel/random/boot_id").decode("ascii", "replace").strip()


def read_stat(pid: int) -> ProcessStat | None:
    """The process of that pid now; None when there is none."""
    try:
        text = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The name in parentheses may hold blanks and parentheses: fields are counted behind the last one.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    ppid, pgid, sid, threads, ticks = (int(fields[at]) for at in (1, 2, 3, 17, 19))
    return ProcessStat(pid, chr(fields[0][0]), ppid, pgid, sid, ticks, threads)


def identify(pid: int) -> ProcessId | None:
    """The identity of a living process; None when it is gone or a zombie."""
    stat = read_stat(pid)
    return stat.id if stat is not None and stat.is_alive else None


def is_alive(process: ProcessId) -> bool:
    """Whether exactly this process lives: not a later one with its pid, and not its zombie."""
    return identify(process.pid) == process


def all_stats() -> Iterator[ProcessStat]:
    """Every process that is visible now; those that end meanwhile are left out."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := read_stat(int(name))) is not None:
            yield stat


def children_of(pid: int) -> tuple[int, ...]:
    """Pids of the children of all threads; empty where the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, _read_all(f"/proc/{pid}/task/{task}/children").split())
    except (OSError, ValueError):
        pass
    return tuple(found)


def descendants_of(pid: int) -> tuple[ProcessId, ...]:
    """Living descendants by parentage, without walking the whole process table."""
    found: list[ProcessId] = []
    ahead = list(children_of(pid))
    while ahead:
        child = ahead.pop(0)
        if (process := identify(child)) is not None:
            found.append(process)
            ahead += children_of(child)
    return tuple(found)


def command_line(pid: int) -> tuple[str, ...]:
    """The arguments as /proc shows them; empty for a zombie, a kernel thread or a process that is gone."""
    try:
        data = _read_all(f"/proc/{pid}/cmdline")
    except OSError:
        return ()
    return tuple(data.rstrip(b"\0").decode("utf-8", "replace").split("\0")) if data else ()


def command_digest(pid: int) -> str | None:
    """The fingerprint of a process: a hash of its command line as /proc shows it; None when it shows none."""
    from _blake2 import blake2b  # what hashlib gives too, along with OpenSSL: 3 MiB more for every supervisor

    line = command_line(pid)
    return "blake2b:" + blake2b("\0".join(line).encode(), digest_size=32).hexdigest() if line else None


def owner_of(pid: int) -> int | None:
    """The effective user id; None when the process is gone or cannot be seen."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def environment_holds(pid: int, entry: str) -> bool:
    """Whether the process was started with this `NAME=value`; False too where its environment cannot be read."""
    try:
        return entry.encode() in _read_all(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return False


def environment_lacks(pid: int, entry: str) -> bool:
    """Whether the process tells with what it was started, and `NAME=value` is not in it.

    False where its environment cannot be read, and where it erased it: nothing is disproved by silence.
    """
    try:
        entries = _read_all(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return False
    return any(b"=" in each for each in entries) and entry.encode() not in entries


def socket_inodes(pid: int) -> frozenset[int]:
    """Inodes of the sockets that the process holds open; empty where its descriptors cannot be read."""
    found = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    except OSError:
        pass
    return frozenset(found)


def send_signal(process: ProcessId, number: int) -> bool:
    """Signal exactly this process; False when it is gone.

    Raises PermissionError when it is another user's, other OSErrors when the kernel cannot do it.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(process):  # the pidfd pins whoever has the pid now: look again behind it
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def _read(path: str) -> bytes:
    """A file that /proc gives in one piece."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, CHUNK)
    finally:
        os.close(fd)


def _read_all(path: str) -> bytes:
    """A file that /proc gives in pieces of a page or so, up to the limit."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while len(data) < READ_LIMIT and (piece := os.read(fd, CHUNK)):
            data += piece
        return data
    finally:
        os.close(fd)
