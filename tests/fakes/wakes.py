"""A supervisor's sleep that takes no time where nothing but time is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.supervisor.wake import Wake


class QuickWake(Wake):
    """Pauses without a descriptor are noted and skipped; `meanwhile` says what happens in the one of that number."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.ahead = 0.0  # seconds that this clock has skipped
        self.pauses: list[float] = []
        self.meanwhile: dict[int, Callable[[], object]] = {}

    def monotonic(self) -> float:
        """Real time, and what was skipped."""
        return super().monotonic() + self.ahead

    def pause(self, seconds: float, fds: Iterable[int] = ()) -> bool:
        """Skip the time; a descriptor is really waited for."""
        if fds:
            return super().pause(seconds, fds)
        self.pauses.append(round(seconds, 2))
        self.ahead += seconds
        self.meanwhile.get(len(self.pauses), lambda: None)()
        return self.stop_asked
