"""Watch a starting engine until it serves: probe it, publish how far it got, and enforce the budgets of a start."""

from __future__ import annotations

from collections.abc import Callable

from llmgw_reconcile.discovery.readiness import Question, ReadinessRound, Standing, Verdict
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.supervisor.orders import Budgets, Target
from llmgw_reconcile.supervisor.progress import TAIL_BYTES, Progress, is_loading, look_at
from llmgw_reconcile.supervisor.run import Run

LOOK_SECONDS = 1.0  # between two looks at the progress
EAGER_SECONDS = 60.0  # how long a start is probed eagerly; later a moment more or less does not count
PAUSES = {Standing.SILENT: (0.015, 0.05), Standing.ANSWERING: (0.02, 0.25)}  # between probes: eagerly, and later

Publish = Callable[[Phase, str], None]


class Vigil:
    """Call `step` whenever something may have happened; it is over when `is_ready` or `gave_up`."""

    def __init__(self, run: Run, target: Target, publish: Publish, now: float) -> None:
        self._run, self._target, self._publish = run, target, publish
        self._began = self._moved_at = now
        self._probe_at = self._look_at = now
        self._progress: Progress | None = None
        self._loading = False
        self._detail = ""
        self.round: ReadinessRound | None = None
        self.is_ready = False
        self.gave_up = ""  # the budget that was used up, in words

    def step(self, budgets: Budgets, now: float) -> float:
        """Go on without waiting; when to call again at the latest (monotonic)."""
        verdict = self._probe(now)
        if verdict is not None and verdict.standing is Standing.READY:
            self.is_ready = True
            return now
        if verdict is not None:
            self._take(verdict, now)
        if now >= self._look_at:
            self._look(now)
        self._publish(Phase.LOADING if self._loading else Phase.STARTING, self._detail)
        self.gave_up = self._used_up(budgets, now)
        probe = self._probe_at if self.round is None else self.round.deadline
        return min(probe, self._look_at, self._began + budgets.start_timeout, self._moved_at + budgets.silence_timeout)

    def close(self) -> None:
        """Give up a probe under way."""
        if self.round is not None:
            self.round.close()
            self.round = None

    def _probe(self, now: float) -> Verdict | None:
        if self.round is None:
            if now < self._probe_at:
                return None
            target = self._target
            question = Question(
                target.host, target.port, target.served, target.bearer, target.health_path, target.probe_timeout
            )
            self.round = ReadinessRound(question, self._run.find_pids)
        verdict = self.round.advance()
        if verdict is not None:
            self.round = None
        return verdict

    def _take(self, verdict: Verdict, now: float) -> None:
        eager, later = PAUSES[verdict.standing]
        self._probe_at = now + (eager if now - self._began < EAGER_SECONDS else later)
        answering = verdict.standing is Standing.ANSWERING
        self._loading = self._loading or answering
        self._detail = verdict.detail if answering else ""

    def _look(self, now: float) -> None:
        self._look_at = now + LOOK_SECONDS
        progress = look_at(self._run.process.id, self._run.log.size)
        if progress != self._progress:
            self._progress, self._moved_at = progress, now
        self._run.members = tuple(sorted({*self._run.members, *progress.members}))
        self._loading = self._loading or is_loading(self._run.log.tail(TAIL_BYTES), progress)

    def _used_up(self, budgets: Budgets, now: float) -> str:
        because = f" ({self._detail})" if self._detail else ""
        if now - self._began >= budgets.start_timeout:
            return f"not ready within {budgets.start_timeout:g} s{because}"
        if now - self._moved_at >= budgets.silence_timeout:
            return f"no progress for {budgets.silence_timeout:g} s: nothing logged, nothing read{because}"
        return ""
