"""What names a process for good, and how far an engine got: all that a supervisor needs of the observed state."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """Contract §1."""

    STARTING = "starting"  # the process lives, nothing of the model yet
    LOADING = "loading"  # weights are on their way
    READY = "ready"
    DEGRADED = "degraded"  # was ready, misses probes
    BACKOFF = "backoff"  # crashed, will be restarted
    FAILED = "failed"  # ended, will not be restarted
    HELD = "held"  # stopped by hand
    STOPPING = "stopping"
    STOPPED = "stopped"
    ORPHANED = "orphaned"  # lives without a supervisor

    @property
    def is_on_its_way(self) -> bool:
        """Whether it may yet become ready by itself."""
        return self in (Phase.STARTING, Phase.LOADING, Phase.BACKOFF)

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is to run any more: only a command starts it again."""
        return self in (Phase.FAILED, Phase.HELD, Phase.STOPPED)


class ProcessId(NamedTuple):
    """A pid names a process only while it lives; with its kernel start ticks (proc(5), stat field 22), for good."""

    pid: int
    ticks: int
