"""Time that passes only when somebody waits."""

from __future__ import annotations

from collections.abc import Callable


class FakeClock:
    """A clock whose sleeps take no time; what was planned `at` a moment happens when it comes."""

    def __init__(self) -> None:
        self.now = 0.0
        self._plans: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0
        self.now = round(self.now + seconds, 6)
        for plan in sorted(self._plans, key=lambda plan: plan[0]):
            if plan[0] <= self.now:
                self._plans.remove(plan)
                plan[1]()

    def at(self, moment: float, happens: Callable[[], None]) -> None:
        """Let something happen at that time."""
        self._plans.append((moment, happens))
