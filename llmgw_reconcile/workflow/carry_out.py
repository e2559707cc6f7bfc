"""Carry a plan out: stop, adopt, update, start, and replace one step at a time, then wait until each engine serves.

A step is begun or not begun; an interruption falls between steps. A replacement whose old engine is stopped still gets
its new one. What was started lives on under its supervisor, whoever waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.records import read_records
from llmgw_reconcile.errors import LlmgwError, NodeError
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.model.launch import launch_document
from llmgw_reconcile.model.observed import ObservedEngine
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.order import Step, start_steps
from llmgw_reconcile.plan.reconcile import Wanted
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.supervise.intent import Intent
from llmgw_reconcile.supervise.operations import Operations
from llmgw_reconcile.workflow.report import Reporter
from llmgw_reconcile.workflow.waiting import Waiting, failure_of

POLL_SECONDS = 0.01


class Limits(NamedTuple):
    """How an apply is to go about it; durations in seconds."""

    parallel: int = 8  # engines that start at once
    wait: bool = True
    timeout: float | None = None  # for all of the waiting


class CarryOut:
    """One apply under way."""

    def __init__(
        self,
        operations: Operations,
        reporter: Reporter,
        limits: Limits,
        *,
        is_interrupted: Callable[[], bool],
        state_file: str,
        state_digest: str,
        on_acted: Callable[[], None] = lambda: None,
    ) -> None:
        self._operations, self._reporter, self._limits = operations, reporter, limits
        self._is_interrupted = is_interrupted
        self._state = (state_file, state_digest)
        self._on_acted = on_acted
        self._clock: Clock = operations.clock
        self._outcomes: dict[str, Outcome] = {}
        self._began: dict[str, float] = {}
        self._waiting = Waiting(operations.state_dir, self._clock)
        self._previous: dict[str, Intent] = {}
        self._rolling: set[str] = set()
        self._halted = ""

    def run(
        self, actions: tuple[Action, ...], wanted: Mapping[str, Wanted], running: Mapping[str, ObservedEngine]
    ) -> tuple[Outcome, ...]:
        """Carry the actions out; an outcome for each, in their order."""
        for action in actions:
            if action.kind is ActionKind.BLOCKED:
                reasons = "; ".join(d.message for d in action.diagnostics) or action.reason
                self._outcomes[action.engine] = Outcome(action.engine, action.kind, ok=False, summary=reasons)
        self._stop_all([action for action in actions if action.kind is ActionKind.STOP])
        for action in actions:
            if action.kind in (ActionKind.ADOPT, ActionKind.UPDATE):
                self._attempt(action, self._tend, action, wanted[action.engine], running[action.engine])
            elif action.kind is ActionKind.KEEP:
                self._keep(action, running[action.engine])
        self._start_all(start_steps(actions, running), wanted, running)
        for action in actions:
            not_tried = Outcome(action.engine, action.kind, ok=False, summary=self._why_not_tried(), tried=False)
            self._outcomes.setdefault(action.engine, not_tried)
        return tuple(self._outcomes[action.engine] for action in actions)

    # -- stops

    def _stop_all(self, actions: list[Action]) -> None:
        """Side by side: all are asked, then each is seen to its end."""
        if self._is_interrupted():
            return
        for action in actions:
            self._reporter.action_started(action)
            self._began[action.engine] = self._clock.monotonic()
            self._operations.ask_to_stop(action.engine)
        for action in actions:
            self._attempt(action, self._stop_for_good, action.engine)

    def _stop_for_good(self, engine: str) -> str:
        words = self._stop_now(engine)
        self._operations.forget(engine)
        return words

    def _stop_now(self, engine: str) -> str:
        result = self._operations.stop(engine)
        if not result.is_stopped:
            pids = ", ".join(str(process.pid) for process in result.survivors)
            raise NodeError(f"unkillable: {pids} live on after SIGKILL; the GPUs they hold stay taken")
        return str(result.outcome)

    # -- what needs no restart

    def _tend(self, action: Action, want: Wanted, seen: ObservedEngine) -> str:
        if action.kind is ActionKind.UPDATE or action.changes:
            self._operations.update(self._intent(want, seen.launch or {}), seen)
        if action.kind is ActionKind.ADOPT:
            self._operations.adopt(seen)
            self._wait_for(action)
            return ""
        return "updated"

    def _keep(self, action: Action, seen: ObservedEngine) -> None:
        if seen.phase.is_on_its_way and self._limits.wait:
            self._began[action.engine] = self._clock.monotonic()
            self._wait_for(action)
        else:
            self._outcomes[action.engine] = Outcome(action.engine, action.kind, ok=True, summary=str(seen.phase))

    # -- starts and replacements

    def _start_all(
        self, steps: tuple[Step, ...], wanted: Mapping[str, Wanted], running: Mapping[str, ObservedEngine]
    ) -> None:
        starts = deque(step for step in steps if not step.rolls)
        rolls = deque(step for step in steps if step.rolls)
        deadline = None if self._limits.timeout is None else self._clock.monotonic() + self._limits.timeout
        acted = False
        while not self._is_interrupted():
            while starts and len(self._waiting) < self._limits.parallel and not self._is_interrupted():
                self._take(starts.popleft(), wanted, running)
            if rolls and not self._rolling and not self._halted:
                self._take(rolls.popleft(), wanted, running)
            if not acted and not starts and (not rolls or self._halted):
                acted = True
                self._on_acted()
            if not self._waiting and not starts and (not rolls or self._halted):
                return
            if deadline is not None and self._clock.monotonic() >= deadline:
                self._end_waiting(f"not ready within {self._limits.timeout:g} s; its supervisor goes on")
                return
            self._look()
            self._clock.sleep(POLL_SECONDS)
        self._end_waiting("interrupted while it was waited for; its supervisor goes on", ok=True)

    def _take(self, step: Step, wanted: Mapping[str, Wanted], running: Mapping[str, ObservedEngine]) -> None:
        """One step: all its stops, then all its starts. An engine that would not stop gets no successor."""
        failed = False
        for action in step.actions:
            self._reporter.action_started(action)
            self._began[action.engine] = self._clock.monotonic()
            if action.kind is ActionKind.REPLACE:
                self._previous[action.engine] = previous_intent(self._operations, action.engine)
            seen = running.get(action.engine)
            if action.kind is ActionKind.REPLACE or (seen is not None and seen.leftovers):
                failed |= not self._attempt(action, self._make_room, action.engine)
        if failed:
            self._halt(step, "an engine whose place it takes did not stop")
            return
        for action in step.actions:
            self._attempt(action, self._start, action, wanted[action.engine])

    def _make_room(self, engine: str) -> str:
        self._stop_now(engine)
        return ""

    def _start(self, action: Action, want: Wanted) -> str:
        assert want.launch is not None
        self._operations.start(self._intent(want, launch_document(want.launch)))
        if not self._limits.wait:
            return "started; not waited for"
        if action.kind is ActionKind.REPLACE:
            self._rolling.add(action.engine)
        self._wait_for(action)
        return ""

    def _intent(self, want: Wanted, launch: Mapping[str, object]) -> Intent:
        digests = {field: digest for field, digest in want.secret_digests.items() if digest}
        spec = want.spec
        return Intent(spec.engine, spec.document, spec.bookkeeping, digests, dict(launch), *self._state)

    # -- waiting

    def _wait_for(self, action: Action) -> None:
        self._waiting.add(action, self._began.setdefault(action.engine, self._clock.monotonic()))

    def _look(self) -> None:
        """See how those stand that are waited for."""
        for action, sighting in self._waiting.look():
            self._reporter.waiting(sighting)
            if sighting.phase == "ready":
                self._finish(action, ok=True, summary="ready")
            elif sighting.phase in ("failed", "stopped", "held"):
                self._failed(action)

    def _failed(self, action: Action) -> None:
        failure = failure_of(read_records(action.engine, self._operations.state_dir.engine(action.engine)))
        previous = self._previous.pop(action.engine, None)
        summary = failure.summary
        if action.kind is ActionKind.REPLACE:
            self._halted = f"{action.engine} did not get ready"
            summary += "; " + self._roll_back(previous) if previous else ""
        self._finish(action, ok=False, summary=summary)
        self._outcomes[action.engine] = self._outcomes[action.engine]._replace(
            log_tail=failure.log_tail, cause=failure.cause, hint=failure.hint
        )

    def _roll_back(self, previous: Intent) -> str:
        """Bring the previous launch back, once; the words for it."""
        try:
            self._operations.start(previous)
        except LlmgwError as error:
            return f"its previous launch could not be brought back: {error}"
        return "rolled back to its previous launch"

    def _finish(self, action: Action, *, ok: bool, summary: str) -> None:
        self._waiting.drop(action.engine)
        self._rolling.discard(action.engine)
        seconds = self._clock.monotonic() - self._began.get(action.engine, self._clock.monotonic())
        self._outcomes[action.engine] = Outcome(action.engine, action.kind, ok=ok, summary=summary, seconds=seconds)
        self._reporter.action_finished(action.engine, action.kind, ok=ok, summary=summary, seconds=seconds)

    def _end_waiting(self, words: str, *, ok: bool = False) -> None:
        for action in self._waiting.actions:
            self._finish(action, ok=ok, summary=words)

    # -- small things

    def _attempt(self, action: Action, do: Callable[..., str], *arguments: object) -> bool:
        """Do one thing for one engine; a failure is its outcome, and stops nobody else."""
        try:
            words = do(*arguments)
        except LlmgwError as error:
            self._finish(action, ok=False, summary=str(error))
            return False
        if words:
            self._finish(action, ok=True, summary=words)
        return True

    def _halt(self, step: Step, why: str) -> None:
        self._halted = why if step.rolls else self._halted
        for action in step.actions:
            if action.engine not in self._outcomes:
                self._outcomes[action.engine] = Outcome(action.engine, action.kind, ok=False, summary=why, tried=False)

    def _why_not_tried(self) -> str:
        return "interrupted" if self._is_interrupted() else self._halted or "an earlier step came first"


def previous_intent(operations: Operations, engine: str) -> Intent:
    """What an engine runs as now, to bring it back. Raises NodeError when its records are incomplete."""
    records = read_records(engine, operations.state_dir.engine(engine))
    if records.spec is None or records.launch is None:
        raise NodeError(f"the records of {engine} are incomplete")
    spec, state = records.spec, records.spec.get("state", {})
    return Intent(
        engine,
        spec["document"],
        spec["bookkeeping"],
        spec.get("secret_digests", {}),
        records.launch["document"],
        str(state.get("file", "")),
        str(state.get("digest", "")),
    )
