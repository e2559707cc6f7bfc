"""A site without processes: engines stop and get ready when a table says so, on a clock that nobody waits for.

It is the judge too: whoever starts an engine on a GPU or port that another one has, or twice, fails the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from llmgw_reconcile.discovery.records import EngineRecords
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.model.observed import ObservedEngine, Phase
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.reconcile import Wanted
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.supervise.intent import Intent
from llmgw_reconcile.supervisor.ladder import StopOutcome
from llmgw_reconcile.workflow.ledger import Ledger
from llmgw_reconcile.workflow.report import Sighting
from llmgw_reconcile.workflow.site import NOT_WAITED_FOR, Enough
from llmgw_reconcile.workflow.waiting import Failure
from tests.fakes.clock import FakeClock

OLD, NEW = "old", "new"


class Course(NamedTuple):
    """How a run goes: ready, or failed, after so many seconds; or it cannot be started at all."""

    phase: Phase | None = Phase.READY
    seconds: float = 1.0


class FakeReporter:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def action_started(self, action: Action) -> None:
        self.told.append(f"begin {action.engine}")

    def waiting(self, sighting: Sighting) -> None:
        pass

    def comes_back(self, engine: str, why: str) -> None:
        self.told.append(f"back {engine}")

    def action_finished(self, engine: str, kind: ActionKind, *, ok: bool, summary: str, seconds: float) -> None:
        self.told.append(f"{'ok' if ok else 'failed'} {engine}")


class FakeOperations:
    """What a site does to engines; `live` maps those that run to what they run as."""

    def __init__(self, clock: FakeClock, running: Mapping[str, ObservedEngine], courses: Mapping[Any, Course]) -> None:
        self.clock, self._courses = clock, courses
        self._recorded = {name: Intent(name, e.spec or {}, {}, {}, e.launch or {}) for name, e in running.items()}
        self.live = {name: self._recorded[name] for name, seen in running.items() if seen.live}
        self.began: dict[str, float] = {}
        self.done: list[str] = []

    def course(self, engine: str) -> Course:
        """How the engine's present run goes."""
        return self._courses.get((engine, self.version(self.live[engine])), Course())

    def version(self, intent: Intent) -> str:
        """Whether it is what ran at first, or what was wanted."""
        known = self._recorded.get(intent.engine)
        return OLD if known is not None and intent.document == known.document else NEW

    def records(self, name: str) -> EngineRecords:
        if (intent := self._recorded.get(name)) is None:
            return EngineRecords(name)
        spec = {"document": intent.document, "bookkeeping": {}}
        return EngineRecords(name, spec, {"id": "0", "document": intent.launch})

    def start(self, intent: Intent) -> None:
        if self._courses.get((intent.engine, self.version(intent)), Course()).phase is None:
            raise NodeError("it cannot be started")
        assert intent.engine not in self.live, f"a second {intent.engine}"
        gpus, port = set(intent.launch["gpus"]), intent.launch["port"]
        for other in self.live.values():
            assert gpus.isdisjoint(other.launch["gpus"]), f"{intent.engine} on a GPU of {other.engine}"
            assert port != other.launch["port"], f"{intent.engine} on the port of {other.engine}"
        self.live[intent.engine], self.began[intent.engine] = intent, self.clock.now
        self.done.append(f"start {self.version(intent)} {intent.engine}")

    def adopt(self, engine: ObservedEngine) -> None:
        self.began[engine.engine] = self.clock.now
        self.done.append(f"adopt {engine.engine}")

    def update(self, engine: ObservedEngine, bookkeeping: Mapping[str, Any]) -> None:
        self.done.append(f"update {engine.engine}")

    def forget(self, name: str) -> None:
        assert name not in self.live
        self.done.append(f"forget {name}")


class FakeStopping:
    """A stop that takes its time."""

    def __init__(self, operations: FakeOperations, engine: str, seconds: float | None) -> None:
        self._operations, self._engine, self._seconds = operations, engine, seconds
        self._began = operations.clock.now
        self.was_asked = True
        operations.done.append(f"stop {engine}")

    @property
    def is_over(self) -> bool:
        return self._operations.clock.now >= self._began + (self._seconds or 0.0)

    def prove(self) -> StopOutcome:
        if self._seconds is None:
            raise NodeError("unkillable")
        self._operations.live.pop(self._engine, None)
        return StopOutcome.TERMINATED


class FakeWatch:
    """What the supervisor of a run would publish."""

    def __init__(self, operations: FakeOperations, engine: str) -> None:
        self._operations, self._engine = operations, engine

    def look(self) -> Sighting:
        course, began = self._operations.course(self._engine), self._operations.began.get(self._engine, 0.0)
        over = self._operations.clock.now >= began + course.seconds
        phase = course.phase if over and course.phase is not None else Phase.LOADING
        if phase is Phase.FAILED:
            self._operations.live.pop(self._engine)
        return Sighting(self._engine, phase, "", 0.0, "")

    def failure(self) -> Failure:
        return Failure("exit code 1")


class FakeSite:
    """What `Site` is to its users."""

    def __init__(
        self,
        wanted: Mapping[str, Wanted],
        running: Mapping[str, ObservedEngine],
        *,
        courses: Mapping[Any, Course] = {},  # (engine, OLD or NEW) -> how that run goes
        stops: Mapping[str, float | None] = {},  # engine -> seconds; None: it does not stop
        enough_at: float | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.wanted, self.running, self._stops, self._enough_at = wanted, running, stops, enough_at
        self.operations = FakeOperations(self.clock, running, courses)
        self.reporter = FakeReporter()
        self.ledger = Ledger(self.reporter, self.clock)
        self._somebody_waits = True

    def enough(self) -> Enough | None:
        if self._enough_at is not None and self.clock.now >= self._enough_at:
            return Enough("interrupted", ok=True)
        return None if self._somebody_waits else NOT_WAITED_FOR

    def unwatched(self) -> FakeSite:
        other = object.__new__(FakeSite)
        other.__dict__ = self.__dict__ | {"_somebody_waits": False}
        return other

    def watch(self, engine: str) -> FakeWatch:
        return FakeWatch(self.operations, engine)

    def stopping(self, action: Action, *, for_good: bool = False) -> FakeStopping:
        return FakeStopping(self.operations, action.engine, self._stops.get(action.engine, 0.5))

    def clearing(self, action: Action) -> FakeStopping:
        return FakeStopping(self.operations, action.engine, 0.5)


def summaries(outcomes: tuple[Outcome, ...]) -> dict[str, str]:
    """Engine -> how its action ended."""
    return {outcome.engine.removesuffix("@0"): outcome.summary for outcome in outcomes}
