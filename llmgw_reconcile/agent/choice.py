"""Choose what of a plan the agent carries out now, say why not the rest, and learn from how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmgw_reconcile.agent.attempts import Attempts, program_mark
from llmgw_reconcile.agent.backoff import Backoff
from llmgw_reconcile.agent.log import AgentLog
from llmgw_reconcile.agent.restraint import Attempt, left_alone, spec_digest
from llmgw_reconcile.errors import Severity
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.model.observed import ObservedEngine
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.reconcile import Wanted
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.workflow.applying import Applied
from llmgw_reconcile.workflow.planning import Planned

NEVER = float("inf")


class Choice:
    """Decides for one plan after another. `next_at`: when something that waits for its backoff may be tried again."""

    def __init__(
        self, attempts: Attempts, log: AgentLog, clock: Clock, mark: Callable[[str], str] = program_mark
    ) -> None:
        self.backoff = Backoff()
        self.next_at = NEVER
        self._attempts, self._log, self._clock, self._mark = attempts, log, clock, mark

    def choose(self, planned: Planned) -> tuple[Action, ...]:
        """The actions to carry out now. What is kept needs nothing, and what is blocked cannot be done."""
        self.next_at = NEVER
        wanted = {want.spec.engine: want for want in planned.wanted}
        seen = {engine.engine: engine for engine in planned.world.observed.engines}
        self._forget_others({**seen, **wanted})
        self._tell_diagnostics(planned)
        return tuple(
            action
            for action in planned.plan.actions
            if self._is_made(action, wanted.get(action.engine), seen.get(action.engine))
        )

    def account(self, applied: Applied) -> None:
        """Note what was tried, so that it is not tried again as it stands, or not at once. Raises NodeError."""
        wanted = {want.spec.engine: want for want in applied.planned.wanted}
        for outcome in applied.outcomes:
            if outcome.tried and outcome.action not in (ActionKind.KEEP, ActionKind.BLOCKED):
                self._account(outcome, wanted.get(outcome.engine))
        self._attempts.write()

    def _account(self, outcome: Outcome, want: Wanted | None) -> None:
        starts = outcome.action is ActionKind.START
        if starts or not outcome.ok:
            self.backoff.note(outcome.engine, _what(outcome.action, want), self._clock.monotonic())
        if want is not None and (starts or (outcome.action is ActionKind.REPLACE and not outcome.ok)):
            self._attempts.note(outcome.engine, self._attempt(want, failed=not starts))

    def _is_made(self, action: Action, want: Wanted | None, seen: ObservedEngine | None) -> bool:
        if action.kind is ActionKind.BLOCKED:
            return False
        if action.kind is ActionKind.KEEP:
            self._log.settle("left", action.engine)
            if seen is not None and not seen.phase.is_on_its_way:
                self._attempts.drop(action.engine)
            return False
        if want is not None and self._is_left_alone(action, want, seen):
            return False
        self._log.settle("left", action.engine)
        not_before = self.backoff.not_before(action.engine, _what(action.kind, want))
        if self._clock.monotonic() < not_before:
            self.next_at = min(self.next_at, not_before)
            return False
        return True

    def _is_left_alone(self, action: Action, want: Wanted, seen: ObservedEngine | None) -> bool:
        attempt = self._attempts.get(action.engine)
        left = left_alone(action, want, seen, attempt, self._program(want))
        if left is None:
            return False
        if attempt is None or attempt.spec != spec_digest(want):  # somebody else tried it: its program may change yet
            self._attempts.note(action.engine, self._attempt(want, failed=False))
        words = f"{action.engine}: {left.why}; {left.hint}"
        self._log.say_once(("left", action.engine), "left_alone", words, engine=action.engine)
        return True

    def _attempt(self, want: Wanted, *, failed: bool) -> Attempt:
        return Attempt(spec_digest(want), self._program(want), failed)

    def _program(self, want: Wanted) -> str:
        return self._mark(want.placement.executable) if want.placement is not None else ""

    # -- words

    def _forget_others(self, engines: Mapping[str, object]) -> None:
        """What is remembered stays as small as the node."""
        self._attempts.keep_only(engines)
        self.backoff.keep_only(engines)
        self._log.keep_only(engines)

    def _tell_diagnostics(self, planned: Planned) -> None:
        """Each once, for as long as it holds."""
        blocked = (action for action in planned.plan.actions if action.kind is ActionKind.BLOCKED)
        found = [*planned.plan.diagnostics, *(one for action in blocked for one in action.diagnostics)]
        present = {("diagnostic", str(one)): one for one in found if one.severity in (Severity.ERROR, Severity.WARNING)}
        for topic in self._log.topics("diagnostic"):
            if topic not in present:
                self._log.settle(*topic)
        for topic, one in present.items():
            self._log.say_once(topic, "diagnostic", str(one), code=one.code, severity=str(one.severity))


def _what(kind: ActionKind, want: Wanted | None) -> str:
    """What makes an attempt the same one again."""
    return f"{kind} {spec_digest(want)}" if want is not None else str(kind)
