"""Wait for engines by what their supervisors publish: which changed, and what to say of a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from llmgw_reconcile.discovery.records import EngineRecords, last_exit_of, read_records
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.host.proc import boot_id, is_alive
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import Action
from llmgw_reconcile.workflow.report import Sighting

LOG_PEEK_SECONDS = 2.0
LOG_PEEK_BYTES = 4096
LIVENESS_SECONDS = 1.0
SHOWN_LINES = 20
FINAL = (Phase.FAILED, Phase.STOPPED, Phase.HELD)


class Failure(NamedTuple):
    """Why an engine did not get ready."""

    summary: str
    cause: str
    hint: str
    log_tail: tuple[str, ...]


class _Watched:
    """One engine that is waited for."""

    def __init__(self, action: Action, began: float) -> None:
        self.action, self.began = action, began
        self.stamp = -1
        self.sighting = Sighting(action.engine, str(Phase.STARTING), "", 0.0, "")
        self.log_at = self.alive_at = 0.0


class Waiting:
    """The engines that are waited for."""

    def __init__(self, state_dir: StateDir, clock: Clock) -> None:
        self._state_dir, self._clock = state_dir, clock
        self._watched: dict[str, _Watched] = {}

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def actions(self) -> tuple[Action, ...]:
        """What is waited for."""
        return tuple(watched.action for watched in self._watched.values())

    def add(self, action: Action, began: float) -> None:
        """Wait for this engine, whose action began then (monotonic)."""
        self._watched[action.engine] = _Watched(action, began)

    def drop(self, engine: str) -> None:
        """Wait no more for it."""
        self._watched.pop(engine, None)

    def look(self) -> Iterator[tuple[Action, Sighting]]:
        """How each of them stands now. Cheap: a record is read only when it changed."""
        now = self._clock.monotonic()
        for watched in list(self._watched.values()):
            folder = self._state_dir.engine(watched.action.engine)
            stamp = _stamp(folder.file("phase.json"))
            if stamp != watched.stamp or now >= watched.alive_at:
                watched.stamp, watched.alive_at = stamp, now + LIVENESS_SECONDS
                phase, detail = _phase(read_records(watched.action.engine, folder))
                watched.sighting = watched.sighting._replace(phase=phase, detail=detail)
            if now >= watched.log_at:
                watched.log_at = now + LOG_PEEK_SECONDS
                watched.sighting = watched.sighting._replace(log_line=newest_line(folder.log))
            watched.sighting = watched.sighting._replace(seconds=now - watched.began)
            yield watched.action, watched.sighting


def _phase(records: EngineRecords) -> tuple[str, str]:
    """What the supervisor says; a supervisor that is gone says nothing any more."""
    said = records.phase
    if said is None:
        return str(Phase.STARTING), ""
    if said.phase not in FINAL and not (said.boot_id == boot_id() and is_alive(said.supervisor)):
        return str(Phase.FAILED), "its supervisor is gone"
    return str(said.phase), said.detail


def failure_of(records: EngineRecords) -> Failure:
    """What is known of an engine that did not get ready, for people."""
    last, tail = last_exit_of(records)
    entry = records.exits[-1] if records.exits else {}
    said = records.phase.detail if records.phase else ""
    if records.phase is None or records.phase.phase not in FINAL:
        return Failure("its supervisor is gone", "", "apply again: an engine that lives on is adopted", ())
    if records.phase.phase is not Phase.FAILED:
        return Failure(f"{records.phase.phase} meanwhile", "", "", ())
    meaning = str(entry.get("meaning") or "")
    cause = last.cause or said
    lines = tuple(neutralise(line) for line in tail[-SHOWN_LINES:])
    summary = last.words or said or "failed"
    return Failure(f"{summary}: {meaning}" if meaning else summary, cause, str(entry.get("hint") or ""), lines)


def newest_line(path: str) -> str:
    """The last line of a log that is not blank; empty when there is none."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_PEEK_BYTES))
            text = file.read(LOG_PEEK_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return neutralise(lines[-1]) if lines else ""


def _stamp(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1
