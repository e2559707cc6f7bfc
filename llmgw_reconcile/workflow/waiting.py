"""Wait for an engine by what its supervisor publishes, and say why it did not get ready."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.processes import find_processes
from llmgw_reconcile.discovery.records import EngineRecords, last_exit_of, read_records
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.host.proc import boot_id, is_alive
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.supervise.log import newest_line, secrets_of
from llmgw_reconcile.workflow.report import Sighting

LOG_PEEK_SECONDS = 2.0
LIVENESS_SECONDS = 1.0
SHOWN_LINES = 20
SUPERVISOR_GONE = "its supervisor is gone"


class Failure(NamedTuple):
    """Why an engine did not get ready."""

    summary: str
    cause: str = ""
    hint: str = ""
    log_tail: tuple[str, ...] = ()
    lives: bool = False  # the engine itself lives on, and an apply would adopt it


class Watch:
    """One engine that is waited for.

    `began` is when its action began (monotonic); `environ` is where secrets are looked up, so that none is shown.
    """

    def __init__(
        self, engine: str, folder: EngineDir, *, clock: Clock, began: float, environ: Mapping[str, str]
    ) -> None:
        self._folder, self._clock, self._began, self._environ = folder, clock, began, environ
        self._stamp: tuple[int, int] | None = None
        self._log_at = self._alive_at = 0.0
        self._seen = Sighting(engine, Phase.STARTING, "", 0.0, "")

    def look(self) -> Sighting:
        """How it stands now. Cheap: the records are read only when a phase was published, and once a second."""
        now = self._clock.monotonic()
        stamp = _stamp(self._folder.file("phase.json"))
        if stamp != self._stamp or now >= self._alive_at:
            self._stamp, self._alive_at = stamp, now + LIVENESS_SECONDS
            phase, detail = _phase(read_records(self._seen.engine, self._folder))
            self._seen = self._seen._replace(phase=phase, detail=detail)
        if now >= self._log_at:
            self._log_at = now + LOG_PEEK_SECONDS
            secrets = secrets_of(self._seen.engine, self._folder, self._environ)
            self._seen = self._seen._replace(log_line=newest_line(self._folder.log, secrets))
        self._seen = self._seen._replace(seconds=now - self._began)
        return self._seen

    def failure(self) -> Failure:
        """Why it ended."""
        return failure_of(read_records(self._seen.engine, self._folder))


def _phase(records: EngineRecords) -> tuple[Phase, str]:
    """What the supervisor says; a supervisor that is gone says nothing any more."""
    said = records.phase
    if said is None:
        return Phase.STARTING, ""
    if not said.phase.has_ended and not (said.boot_id == boot_id() and is_alive(said.supervisor)):
        return Phase.FAILED, SUPERVISOR_GONE
    return said.phase, said.detail


def failure_of(records: EngineRecords) -> Failure:
    """What is known of an engine that did not get ready, for people."""
    said = records.phase
    if said is None or not said.phase.has_ended:
        lives = find_processes(records, boot_id()).leader is not None
        hint = "the engine itself lives on: the next apply adopts it" if lives else "the next apply starts it afresh"
        return Failure(SUPERVISOR_GONE, hint=hint, lives=lives)
    if said.phase is not Phase.FAILED:
        return Failure(f"{said.phase} meanwhile")
    entry = records.exits[-1] if records.exits else {}
    if entry.get("launch") != said.launch:  # a disk that is full keeps no history
        return Failure("failed", cause=said.detail)
    last, tail = last_exit_of(records)
    meaning = str(entry.get("meaning") or "")
    summary = last.words or said.detail or "failed"
    return Failure(
        f"{summary}: {meaning}" if meaning else summary,
        last.cause or said.detail,
        str(entry.get("hint") or ""),
        tuple(neutralise(line) for line in tail[-SHOWN_LINES:]),
    )


def _stamp(path: str) -> tuple[int, int] | None:
    """What differs between two publications: each is a new file, also within one tick of the clock."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
