"""Tell a person or a program how an apply goes on: lines on standard error, or one JSON event a line."""

from __future__ import annotations

import json
from collections.abc import Callable

from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.render.status import duration_text
from llmgw_reconcile.workflow.report import Sighting

QUIET_SECONDS = 10.0  # between two lines about an engine whose phase does not change
LINE_WIDTH = 140  # characters, where nobody says how wide the terminal is

Write = Callable[[str], None]


class TextProgress:
    """A line when something begins, changes or ends, and now and then while nothing does."""

    def __init__(self, write: Write, *, width: int | None) -> None:
        self._write, self._width = write, width
        self._said: dict[str, tuple[str, str, float]] = {}

    def action_started(self, action: Action) -> None:
        """Say what begins."""
        self._write(f"{action.engine}: {action.kind}")

    def waiting(self, sighting: Sighting) -> None:
        """Say how it stands when that changed, or when nothing was said for a while."""
        phase, detail, at = self._said.get(sighting.engine, ("", "", 0.0))
        changed = (phase, detail) != (sighting.phase, sighting.detail)
        is_over = sighting.phase is Phase.READY or sighting.phase.has_ended  # the next line says so, and more
        if is_over or not (changed or sighting.seconds - at >= QUIET_SECONDS):
            return
        self._said[sighting.engine] = (sighting.phase, sighting.detail, sighting.seconds)
        words = [f"{sighting.engine}: {sighting.phase}, {duration_text(sighting.seconds)}", sighting.detail]
        words += [] if changed else [sighting.log_line]
        self._write(neutralise(": ".join(filter(None, words)), self._width or LINE_WIDTH))

    def comes_back(self, engine: str, why: str) -> None:
        """Say that a replacement was in vain."""
        self._write(f"{engine}: {why}; its previous launch is started again")

    def action_finished(self, engine: str, kind: ActionKind, *, ok: bool, summary: str, seconds: float) -> None:
        """Say how it ended."""
        self._write(f"{engine}: {summary if ok else f'failed: {summary}'} ({duration_text(seconds)})")


class JsonProgress:
    """Contract §6: events, a line each."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._said: dict[str, tuple[str, str]] = {}

    def event(self, kind: str, **fields: object) -> None:
        """One event."""
        self._write(json.dumps({"event": kind, **fields}, allow_nan=False))

    def action_started(self, action: Action) -> None:
        """An `action_started` event."""
        self.event("action_started", engine=action.engine, action=str(action.kind))

    def waiting(self, sighting: Sighting) -> None:
        """A `phase` event whenever the phase changes."""
        now = (sighting.phase, sighting.detail)
        if self._said.get(sighting.engine) == now:
            return
        self._said[sighting.engine] = now
        self.event("phase", **sighting._asdict() | {"seconds": round(sighting.seconds, 3)})

    def comes_back(self, engine: str, why: str) -> None:
        """A `phase` event: its new launch has failed. Those of the previous launch follow."""
        self.event(
            "phase", engine=engine, phase=str(Phase.FAILED), detail=f"{why}; its previous launch is started again"
        )

    def action_finished(self, engine: str, kind: ActionKind, *, ok: bool, summary: str, seconds: float) -> None:
        """An `action_finished` event."""
        self.event(
            "action_finished", engine=engine, action=str(kind), ok=ok, summary=summary, seconds=round(seconds, 3)
        )
