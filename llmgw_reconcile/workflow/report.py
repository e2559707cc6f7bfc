"""What an apply says while it works, and what it says at the end."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from llmgw_reconcile.plan.actions import Action, ActionKind


class Sighting(NamedTuple):
    """An engine that is waited for: how it stands, for how long, and the newest line of its log."""

    engine: str
    phase: str
    detail: str
    seconds: float
    log_line: str


class Reporter(Protocol):
    """Told as things happen; never asked."""

    def action_started(self, action: Action) -> None:
        """An action begins."""

    def waiting(self, sighting: Sighting) -> None:
        """Called often: on each change of phase, and again and again while nothing changes."""

    def action_finished(self, engine: str, kind: ActionKind, *, ok: bool, summary: str, seconds: float) -> None:
        """An action is over."""
