"""Keep account of an apply: when each action began, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable

from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.plan.actions import Action
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.workflow.report import Reporter
from llmgw_reconcile.workflow.waiting import Failure


class Ledger:
    """The outcomes of one apply; tells the reporter as they come."""

    def __init__(self, reporter: Reporter, clock: Clock) -> None:
        self.reporter, self._clock = reporter, clock
        self._began: dict[str, float] = {}
        self._outcomes: dict[str, Outcome] = {}

    def begin(self, action: Action) -> None:
        """The action begins now."""
        self._began[action.engine] = self._clock.monotonic()
        self.reporter.action_started(action)

    def began(self, engine: str) -> float:
        """When its action began (monotonic); now, for one that is only looked at."""
        return self._began.setdefault(engine, self._clock.monotonic())

    def finish(self, action: Action, *, ok: bool, summary: str, failure: Failure | None = None) -> None:
        """The action is over."""
        seconds = self._clock.monotonic() - self.began(action.engine)
        outcome = Outcome(action.engine, action.kind, ok=ok, summary=summary, seconds=seconds)
        if failure is not None:
            outcome = outcome._replace(cause=failure.cause, hint=failure.hint, log_tail=failure.log_tail)
        self._outcomes[action.engine] = outcome
        self.reporter.action_finished(action.engine, action.kind, ok=ok, summary=summary, seconds=seconds)

    def note(self, action: Action, *, ok: bool, summary: str, tried: bool = True) -> None:
        """An outcome without anything that was done for it."""
        self._outcomes[action.engine] = Outcome(action.engine, action.kind, ok=ok, summary=summary, tried=tried)

    def outcome(self, engine: str) -> Outcome | None:
        """How its action ended; None while it has not."""
        return self._outcomes.get(engine)

    def outcomes(self, actions: Iterable[Action], *, otherwise: str) -> tuple[Outcome, ...]:
        """One for each action; `otherwise` says why those without one were not tried."""
        for action in actions:
            if action.engine not in self._outcomes:
                self.note(action, ok=False, summary=otherwise, tried=False)
        return tuple(self._outcomes[action.engine] for action in actions)
