"""What really runs on the node, as far as records, kernel, sockets and probes tell."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic
from llmgw_reconcile.model.process import Phase as Phase
from llmgw_reconcile.model.process import ProcessId as ProcessId
from llmgw_reconcile.model.spec import Document


class LastExit(NamedTuple):
    """How the last run of an engine ended; exactly one of `code` and `signal` is known, or none."""

    code: int | None = None
    signal: str | None = None  # "SIGKILL"
    at: str | None = None  # UTC, RFC 3339
    cause: str | None = None  # the root cause found in its log, one line

    @property
    def words(self) -> str:
        """How it ended, for people: `exit code 7`, `SIGKILL`, or nothing when that is not known."""
        return self.signal or ("" if self.code is None else f"exit code {self.code}")


class ObservedEngine(NamedTuple):
    """One engine of ours. `live` is the leader, proven by boot id, pid, ticks and owner; None when it is gone."""

    engine: str
    phase: Phase
    live: ProcessId | None = None
    supervisor: ProcessId | None = None
    leftovers: tuple[ProcessId, ...] = ()  # members of its group or session that outlived the leader, proven ours
    port: int | None = None
    host: str | None = None
    gpus: tuple[str, ...] = ()
    served: tuple[str, ...] = ()
    since: str | None = None  # of the phase; UTC, RFC 3339
    restarts: int = 0
    last_exit: LastExit = LastExit()
    log_tail: tuple[str, ...] = ()
    detail: str = ""  # what it waits for, or what is odd about it
    spec: Document | None = None  # as recorded; None when the record is lost
    bookkeeping: Document | None = None
    launch: Document | None = None
    secret_digests: Document | None = None  # "api_key" | "env.NAME" -> keyed digest at the start
    problems: tuple[Diagnostic, ...] = ()  # about its records
    command: tuple[str, ...] = ()  # of its leader, as the kernel shows it; empty: not known
    context: int | None = None  # tokens; what it says of itself while it is ready
    version: str | None = None  # likewise, where it is pinned
    load_seconds: float | None = None  # from the start of its process until it was ready

    @property
    def is_running(self) -> bool:
        """Whether its leader lives."""
        return self.live is not None


class ForeignProcess(NamedTuple):
    """A process that is not provably ours and is in the way: named, never signalled."""

    pid: int | None
    user: str | None
    command: str | None
    holds: str  # "port 8000", "GPU 3: 61190 MiB"


class ObservedState(NamedTuple):
    """All engines that records of ours name, sorted by name, and the strangers that matter."""

    engines: tuple[ObservedEngine, ...] = ()
    listeners: tuple[tuple[int, ForeignProcess], ...] = ()  # port -> who listens and is not ours
    problems: tuple[Diagnostic, ...] = ()
    readable: bool = True  # False: records could not be read; nothing may be stopped

    def find(self, engine: str) -> ObservedEngine | None:
        """The engine of that id, if a record names it."""
        return next((e for e in self.engines if e.engine == engine), None)
