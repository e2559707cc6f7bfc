"""What an apply says while it works: told as things happen, never asked."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.plan.actions import Action, ActionKind


class Sighting(NamedTuple):
    """An engine that is waited for: how it stands, for how long, and the newest line of its log."""

    engine: str
    phase: Phase
    detail: str
    seconds: float
    log_line: str


class Reporter(Protocol):
    """Who listens to an apply. It must not raise: a listener that has gone is no reason to stop half-way."""

    def action_started(self, action: Action) -> None:
        """An action begins."""

    def waiting(self, sighting: Sighting) -> None:
        """Called often: on each change of phase, and again and again while nothing changes."""

    def comes_back(self, engine: str, why: str) -> None:
        """A replacement did not get ready: the engine's previous launch is started again, and waited for."""

    def action_finished(self, engine: str, kind: ActionKind, *, ok: bool, summary: str, seconds: float) -> None:
        """An action is over."""
