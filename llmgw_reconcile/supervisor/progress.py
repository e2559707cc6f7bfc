"""See whether a loading engine still moves, and how far it got, from its log, its processes and what they read."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.host.proc import descendants_of
from llmgw_reconcile.model.observed import ProcessId

# Log lines that say that weights are on their way: vLLM 0.32, SGLang 0.5.23, llama-server b10434.
LOADING_SIGNS = (b"Starting to load model", b"Load weight begin", b"loading model")
TAIL_BYTES = 16 << 10


class Progress(NamedTuple):
    """Figures that grow while an engine loads; equal figures mean that nothing moved."""

    log_bytes: int
    read_bytes: int
    members: tuple[ProcessId, ...]


def look_at(leader: ProcessId, log_bytes: int) -> Progress:
    """The figures now: cheap, by parentage, without a walk over all processes."""
    members = (leader, *descendants_of(leader.pid))
    return Progress(log_bytes, sum(_read_bytes(member.pid) for member in members), members)


def is_loading(tail: bytes, progress: Progress) -> bool:
    """Whether there is a sign of the model: a line in the log, or processes that the engine started to hold it."""
    return len(progress.members) > 2 or any(sign in tail for sign in LOADING_SIGNS)


def _read_bytes(pid: int) -> int:
    """Bytes that the process read, from files and pipes (proc_pid_io(5)); 0 where that cannot be seen."""
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            return int(file.readline().partition(b":")[2])
    except (OSError, ValueError):
        return 0
