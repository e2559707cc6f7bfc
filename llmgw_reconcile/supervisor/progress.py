"""See whether a loading engine still moves, and how far it got, from its log, its processes and what they read."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.host.proc import descendants_of
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor.log_bound import LogBound

# Log lines that say that weights are on their way: vLLM 0.32, SGLang 0.5.23, llama-server b10434.
LOADING_SIGNS = (b"Starting to load model", b"Load weight begin", b"loading model")
# In the access log of an engine that answers but is not ready stand our own questions: they are no sign of life.
OWN_QUESTIONS = (b"/health", b"/v1/models")
TAIL_BYTES = 16 << 10
LEAST_READ = 1 << 20  # bytes; processes that wait for each other read a few from pipes all the time


class Progress(NamedTuple):
    """How far an engine got."""

    log_bytes: int
    read_bytes: int
    members: tuple[ProcessId, ...]

    def has_moved_since(self, before: Progress, told: bytes) -> bool:
        """Whether anything happened: a process came or went, weights were read, or the log `told` something."""
        return (
            self.members != before.members
            or self.read_bytes - before.read_bytes >= LEAST_READ
            or any(line.strip() and not any(own in line for own in OWN_QUESTIONS) for line in told.splitlines())
        )


def look_at(leader: ProcessId, log_bytes: int) -> Progress:
    """How far it got now: cheap, by parentage, without a walk over all processes."""
    members = (leader, *descendants_of(leader.pid))
    return Progress(log_bytes, sum(_read_bytes(member.pid) for member in members), members)


def is_loading(log: LogBound, progress: Progress) -> bool:
    """Whether there is a sign of the model: a line in the log, or processes that the engine started to hold it."""
    if len(progress.members) > 2:
        return True
    tail = log.tail(TAIL_BYTES)
    return any(sign in tail for sign in LOADING_SIGNS)


def _read_bytes(pid: int) -> int:
    """Bytes that the process read by calls and by touching mapped files (proc_pid_io(5)); 0 where it cannot be seen."""
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            fields = dict(line.split(b":") for line in file)
        return int(fields[b"rchar"]) + int(fields[b"read_bytes"])
    except (OSError, ValueError, KeyError):
        return 0
