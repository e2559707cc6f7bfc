"""Watch a starting engine until it serves: probe it, publish how far it got, and enforce the budgets of a start."""

from __future__ import annotations

from collections.abc import Callable

from llmgw_reconcile.discovery.readiness import Question, ReadinessRound, Standing, Verdict
from llmgw_reconcile.model.process import Phase
from llmgw_reconcile.supervisor.orders import Budgets, Target
from llmgw_reconcile.supervisor.progress import TAIL_BYTES, Progress, is_loading, look_at
from llmgw_reconcile.supervisor.run import Run
from llmgw_reconcile.supervisor.wake import NEVER

LOOK_SECONDS = 1.0  # between two looks at the progress
# Between probes: the longer a start has taken, the less a moment more counts, and each answer costs the engine a line
# in its log.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.015, 0.25
SHARE_OF_THE_START = 0.01

Publish = Callable[[Phase, str], None]
Note = Callable[[], None]


class Vigil:
    """Call `step` whenever something may have happened; it is over when `is_ready` or `gave_up`.

    An adopted engine that was ready is only busy when it does not answer: no budget of a start ends it.
    """

    def __init__(self, run: Run, target: Target, publish: Publish, note_members: Note, now: float) -> None:
        """`note_members` is told when the run has members that it has not been told of."""
        self._run, self._target, self._publish, self._note_members = run, target, publish, note_members
        self._began = self._moved_at = now
        self._probe_at = self._look_at = now
        self._progress = Progress(0, 0, ())
        self._noted = run.members
        self._loading = False
        self._detail = ""
        self.round: ReadinessRound | None = None
        self.is_ready = False
        self.gave_up = ""  # the budget that was used up, in words

    def step(self, budgets: Budgets, now: float) -> float:
        """Go on without waiting; when to call again at the latest (monotonic), NEVER once the engine is ready."""
        if self.is_ready:
            return NEVER
        verdict = self._probe(now)
        if verdict is not None and verdict.standing is Standing.READY:
            self.is_ready = True
            return NEVER
        if verdict is not None:
            self._take(verdict, now)
        if now >= self._look_at:
            self._look(now)
        self._publish(self._phase(), self._detail)
        self.gave_up, budget_at = self._budget(budgets, now)
        return min(self._probe_at if self.round is None else self.round.deadline, self._look_at, budget_at)

    def close(self) -> None:
        """Give up a probe under way."""
        if self.round is not None:
            self.round.close()
            self.round = None

    def _phase(self) -> Phase:
        if self._run.was_ready:
            return Phase.DEGRADED if self._detail else Phase.READY
        return Phase.LOADING if self._loading else Phase.STARTING

    def _probe(self, now: float) -> Verdict | None:
        if self.round is None and now < self._probe_at:
            return None
        try:
            self.round = self.round or ReadinessRound(self._question(), self._run.find_pids)
            verdict = self.round.advance()
        except OSError as error:  # sockets cannot be listed, or there are no descriptors left
            self.close()
            return Verdict(Standing.ANSWERING, f"cannot be asked: {error.strerror}")
        if verdict is not None:
            self.round = None
        return verdict

    def _question(self) -> Question:
        target = self._target
        return Question(
            target.host, target.port, target.served, target.bearer, target.health_path, target.probe_timeout
        )

    def _take(self, verdict: Verdict, now: float) -> None:
        pause = (now - self._began) * SHARE_OF_THE_START
        self._probe_at = now + min(LONGEST_PAUSE, max(SHORTEST_PAUSE, pause))
        answering = verdict.standing is Standing.ANSWERING
        self._loading = self._loading or answering
        self._detail = verdict.detail if answering or self._run.was_ready else ""

    def _look(self, now: float) -> None:
        self._look_at = now + LOOK_SECONDS
        progress = look_at(self._run.process.id, self._run.log.size)
        if progress.has_moved_since(self._progress, self._run.log.since(self._progress.log_bytes, TAIL_BYTES)):
            self._moved_at = now
            read_bytes = progress.read_bytes
        else:
            read_bytes = min(progress.read_bytes, self._progress.read_bytes)
        self._progress = progress._replace(read_bytes=read_bytes)
        self._run.remember(progress.members)
        if not set(self._run.members) <= set(self._noted):
            self._note_members()
        self._noted = self._run.members
        self._loading = self._loading or is_loading(self._run.log, progress)

    def _budget(self, budgets: Budgets, now: float) -> tuple[str, float]:
        """The budget that is used up, in words, and when the next one is."""
        if self._run.was_ready:
            return "", NEVER
        start_at, silence_at = self._began + budgets.start_timeout, self._moved_at + budgets.silence_timeout
        because = f" ({self._detail})" if self._detail else ""
        if now >= start_at:
            return f"not ready within {budgets.start_timeout:g} s{because}", now
        if now >= silence_at:
            return f"no progress for {budgets.silence_timeout:g} s: nothing logged, nothing read{because}", now
        return "", min(start_at, silence_at)
