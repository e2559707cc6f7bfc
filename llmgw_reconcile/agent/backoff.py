"""Wait longer each time before the same thing is tried again for an engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from llmgw_reconcile.supervisor.restarts import DELAYS

CALM_SECONDS = 600.0  # after so long without a new attempt the count begins anew


class _Count(NamedTuple):
    what: str
    attempts: int
    at: float  # of the last one (monotonic)

    @property
    def not_before(self) -> float:
        return self.at + DELAYS[min(self.attempts, len(DELAYS)) - 1]


class Backoff:
    """Counts attempts; times are monotonic. The pauses are those of a supervisor between two restarts.

    `what` tells attempts apart: what was tried for another entry, or failed otherwise, does not count.
    """

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}

    def note(self, engine: str, what: str, now: float) -> None:
        """This is tried for it now."""
        before = self._counts.get(engine)
        if before is None or before.what != what or now >= before.not_before + CALM_SECONDS:
            before = _Count(what, 0, now)
        self._counts[engine] = _Count(what, before.attempts + 1, now)

    def not_before(self, engine: str, what: str) -> float:
        """When this may be tried again; the past when it may be now."""
        count = self._counts.get(engine)
        return 0.0 if count is None or count.what != what else count.not_before

    def keep_only(self, engines: Collection[str]) -> None:
        """Forget the engines that no state names any more."""
        self._counts = {engine: count for engine, count in self._counts.items() if engine in engines}
