"""Carry a plan out: everything side by side, but what waits for a place, and replacements, which go one at a time.

Something is begun or not begun; an interruption falls between. What was started lives on under its supervisor, whoever
waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.order import Step, start_steps
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.supervise.drain import DEFAULT_DRAIN
from llmgw_reconcile.workflow.site import Site, Work, advance, guarded
from llmgw_reconcile.workflow.stepping import StepWork
from llmgw_reconcile.workflow.tending import WORK

POLL_SECONDS = 0.01


class Limits(NamedTuple):
    """How an apply is to go about it; durations in seconds."""

    parallel: int = 8  # engines that start at once
    wait: bool = True  # False: only a replacement is waited for, and only by the next one
    timeout: float | None = None  # for all of it
    drain: float = DEFAULT_DRAIN  # for an engine to finish its requests, before it is stopped


class _UnderWay(NamedTuple):
    """Work that was begun."""

    work: Work
    starts: int  # engines that it starts, or sees start
    step: StepWork | None = None

    @property
    def is_acting(self) -> bool:
        """Whether it has more to do than to wait for readiness."""
        return self.starts == 0 or (self.step is not None and self.step.is_acting)


class CarryOut:
    """One apply under way. `on_acted` is called once, when nothing is left to do but to wait."""

    def __init__(
        self, site: Site, actions: tuple[Action, ...], limits: Limits, on_acted: Callable[[], None] = lambda: None
    ) -> None:
        self._site, self._actions, self._limits = site, actions, limits
        self._ahead = list(start_steps(actions, site.running))
        self._under_way: list[_UnderWay] = []
        self._halted = ""
        self._on_acted: Callable[[], None] | None = on_acted

    def run(self) -> tuple[Outcome, ...]:
        """Carry the actions out; an outcome for each, in their order."""
        self._begin_what_needs_no_place()
        while True:
            self._begin_steps()
            self._under_way = [one for one in self._under_way if self._go_on(one)]
            if not self._ahead and not any(one.is_acting for one in self._under_way):
                self._tell_acted()
            if not self._under_way and (not self._ahead or self._site.enough()):
                break
            self._site.operations.clock.sleep(POLL_SECONDS)
        enough = self._site.enough()
        return self._site.ledger.outcomes(self._actions, otherwise=enough.reason if enough else self._halted)

    def _begin_what_needs_no_place(self) -> None:
        """Stops, adoptions and updates; the look at what is on its way; and what is not done at all."""
        for action in self._actions:
            if action.kind is ActionKind.BLOCKED:
                reasons = "; ".join(reason.message for reason in action.diagnostics) or action.reason
                self._site.ledger.note(action, ok=False, summary=reasons)
            elif action.kind is ActionKind.KEEP and not self._is_waited_for(action):
                self._site.ledger.note(action, ok=True, summary=str(self._site.running[action.engine].phase))
            elif action.kind in WORK and not self._site.enough():
                stops = action.kind is ActionKind.STOP
                site = self._site if stops or self._limits.wait else self._site.unwatched()
                work = guarded(site, action, WORK[action.kind](site, action))
                if advance(work):
                    self._under_way.append(_UnderWay(work, starts=0 if stops else 1))

    def _is_waited_for(self, action: Action) -> bool:
        return self._limits.wait and self._site.running[action.engine].phase.is_on_its_way

    # -- steps

    def _begin_steps(self) -> None:
        """Those whose turn it is; those whose turn will not come are left out, and noted as not tried."""
        for step in list(self._ahead):
            if self._site.enough():
                return
            if why := self._why_never(step):
                self._ahead.remove(step)
                for action in step.actions:
                    self._site.ledger.note(action, ok=False, summary=why, tried=False)
            elif self._has_its_turn(step):
                self._ahead.remove(step)
                self._begin(step)

    def _why_never(self, step: Step) -> str:
        if step.rolls and self._halted:
            return self._halted
        ends = [(engine, self._site.ledger.outcome(engine)) for engine in step.after]
        stuck = [engine for engine, outcome in ends if outcome is not None and not outcome.ok]
        return f"{', '.join(stuck)}, whose place it takes, did not stop" if stuck else ""

    def _has_its_turn(self, step: Step) -> bool:
        if not all(self._site.ledger.outcome(engine) for engine in step.after):
            return False
        if step.rolls:
            return not any(one.step.rolls for one in self._under_way if one.step)
        return sum(one.starts for one in self._under_way) < self._limits.parallel

    def _begin(self, step: Step) -> None:
        followed = step.rolls and any(other.rolls for other in self._ahead)
        site = self._site if self._limits.wait or followed else self._site.unwatched()
        begun = StepWork(site, step)
        self._under_way.append(_UnderWay(begun.run(), len(step.actions), begun))

    # -- going on

    def _go_on(self, one: _UnderWay) -> bool:
        if advance(one.work):
            return True
        if one.step is not None and one.step.halts:
            self._halted = one.step.halts
        return False

    def _tell_acted(self) -> None:
        if self._on_acted is not None:
            self._on_acted()
            self._on_acted = None
