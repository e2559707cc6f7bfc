"""Time as an input: durations come from the monotonic clock, wall time is only shown."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What waits need."""

    def monotonic(self) -> float:
        """Seconds that never step back."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


class SystemClock:
    """The real one."""

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


def utc_now() -> str:
    """The wall time as RFC 3339 in UTC, for people."""
    return time.strftime("%FT%TZ", time.gmtime())
