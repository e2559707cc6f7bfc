"""Write into the journal what is done to engines: each outcome as it comes, with who asked for it, and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.checkout import commit_of
from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.host.journal import append_line
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.model.event import Event, Result
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.workflow.host import Host, own_account
from llmgw_reconcile.workflow.report import Reporter, Sighting

TEXT_WIDTH = 500  # characters of a detail or a reason
NOTHING_DONE = (ActionKind.KEEP, ActionKind.BLOCKED)


class Occasion(NamedTuple):
    """On what occasion something is done; what does not apply is None."""

    command: str  # "llmgw apply"
    state: str | None = None
    commit: str | None = None
    plan: str | None = None  # digest
    reason: str | None = None  # what the person said with --reason


def state_occasion(command: str, state: DesiredState, plan: str, reason: str | None = None) -> Occasion:
    """A state is applied: its file, and the commit that is checked out there."""
    if state.source == "-":
        return Occasion(command, "-", None, plan, reason)
    return Occasion(command, os.path.abspath(state.source), commit_of(state.source), plan, reason)


class Journal:
    """The journal of a node, on one occasion. What cannot be written is said once, and stops nothing."""

    def __init__(self, host: Host, occasion: Occasion, say: Callable[[str], None]) -> None:
        self._host, self._say = host, say
        self._has_failed = False
        self._common = {
            "node": host.node,
            "user": own_account().user,
            "sudo_user": host.environ.get("SUDO_USER"),
            **occasion._asdict(),
            "reason": _bounded(occasion.reason or "") or None,
        }

    def note(self, engine: str, action: str, result: Result, detail: str, seconds: float | None = None) -> None:
        """Add a line about an engine; `seconds`: how long the action took."""
        event = Event(
            at=utc_now(),
            engine=engine,
            action=action,
            result=result,
            detail=_bounded(detail),
            seconds=None if seconds is None else round(seconds, 3),
            **self._common,
        )
        try:
            append_line(self._host.state_dir.journal, event.as_json)
        except NodeError as error:
            if not self._has_failed:
                self._say(f"the journal is not kept: {error}")
            self._has_failed = True

    def note_not_tried(self, outcomes: Iterable[Outcome]) -> None:
        """Add those that were planned and did not come to be done."""
        for outcome in outcomes:
            if not outcome.tried and outcome.action not in NOTHING_DONE:
                self.note(outcome.engine, str(outcome.action), Result.NOT_TRIED, outcome.summary)


class JournalingReporter:
    """Tells another reporter everything, and the journal what was done."""

    def __init__(self, reporter: Reporter, journal: Journal) -> None:
        self._reporter, self._journal = reporter, journal

    def action_started(self, action: Action) -> None:
        """Passed on."""
        self._reporter.action_started(action)

    def waiting(self, sighting: Sighting) -> None:
        """Passed on."""
        self._reporter.waiting(sighting)

    def comes_back(self, engine: str, why: str) -> None:
        """Passed on: how it ends will be in the outcome of the replacement."""
        self._reporter.comes_back(engine, why)

    def action_finished(self, engine: str, kind: ActionKind, *, ok: bool, summary: str, seconds: float) -> None:
        """Written down, and passed on."""
        if kind not in NOTHING_DONE:
            self._journal.note(engine, str(kind), Result.DONE if ok else Result.FAILED, summary, seconds)
        self._reporter.action_finished(engine, kind, ok=ok, summary=summary, seconds=seconds)


def _bounded(text: str) -> str:
    """One harmless line."""
    return neutralise(" ".join(text.split()), TEXT_WIDTH)
