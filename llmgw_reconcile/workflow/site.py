"""What the work on all engines of one apply shares, and how work waits: it yields until something has come true."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import NamedTuple, TypeVar

from llmgw_reconcile.errors import LlmgwError
from llmgw_reconcile.model.observed import ObservedEngine
from llmgw_reconcile.plan.actions import Action
from llmgw_reconcile.plan.reconcile import Wanted
from llmgw_reconcile.supervise.drain import Drain
from llmgw_reconcile.supervise.operations import Operations
from llmgw_reconcile.supervise.stopping import Stopping
from llmgw_reconcile.workflow.ledger import Ledger
from llmgw_reconcile.workflow.waiting import Watch

Result = TypeVar("Result")
Waiting = Generator[None, None, Result]  # advanced again and again until it returns
Work = Waiting[None]


class Enough(NamedTuple):
    """Why nobody waits any more. What was started lives on under its supervisor."""

    reason: str
    ok: bool  # whether an engine that was started counts as done all the same


NOT_WAITED_FOR = Enough("not waited for", ok=True)


class Site(NamedTuple):
    """One apply on one node."""

    operations: Operations
    ledger: Ledger
    wanted: Mapping[str, Wanted]
    running: Mapping[str, ObservedEngine]
    enough: Callable[[], Enough | None]  # None while somebody waits
    drain: float = 0.0  # seconds that an engine gets to finish its requests, before it is stopped

    def unwatched(self) -> Site:
        """The same, where nobody waits for readiness."""
        return self._replace(enough=lambda: self.enough() or NOT_WAITED_FOR)

    def watch(self, engine: str) -> Watch:
        """Look at an engine from now on, until it is ready or has ended."""
        return Watch(
            engine,
            self.operations.state_dir.engine(engine),
            clock=self.operations.clock,
            began=self.ledger.began(engine),
            environ=self.operations.environ,
        )

    def stopping(self, action: Action, *, for_good: bool = False) -> Stopping:
        """Begin to stop the engine of an action, once it has finished its requests; broken off, it serves on."""
        drain = Drain(self.drain, self._is_broken_off)
        return Stopping(self.operations, action.engine, for_good=for_good, drain=drain)

    def clearing(self, action: Action) -> Stopping:
        """Begin to stop what was started for an action in vain; not broken off, since others wait for the place."""
        return Stopping(self.operations, action.engine, for_good=False)

    def _is_broken_off(self) -> bool:
        return (self.enough() or NOT_WAITED_FOR) is not NOT_WAITED_FOR


def guarded(site: Site, action: Action, work: Work) -> Work:
    """The same work; what cannot be done is the outcome of this engine, and stops nobody else."""
    try:
        yield from work
    except LlmgwError as error:
        site.ledger.finish(action, ok=False, summary=str(error))


def side_by_side(works: Iterable[Work]) -> Work:
    """All of them, each as far as it can go."""
    under_way = list(works)
    while under_way := [work for work in under_way if advance(work)]:
        yield


def advance(work: Work) -> bool:
    """Let it go on; False when it has ended."""
    return next(work, _ENDED) is not _ENDED


_ENDED = object()
