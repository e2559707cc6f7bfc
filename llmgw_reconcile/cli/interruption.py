"""Signals to a command: at once while it only looks, between two steps while it acts."""

from __future__ import annotations

import signal

from llmgw_reconcile.errors import LlmgwError

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StoppedBySignalError(LlmgwError):
    """A signal came while nothing had been changed."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}; nothing was changed")
        self.exit_code = 128 + number


class Interruption:
    """Remembers the first signal; raises at once until `defer` is called."""

    def __init__(self) -> None:
        self.number = 0
        self._deferred = False
        for watched in WATCHED:
            if signal.getsignal(watched) is not signal.SIG_IGN or watched is not signal.SIGHUP:  # nohup ignores SIGHUP
                signal.signal(watched, self._note)

    def defer(self) -> None:
        """From now on a signal is noted, and taken between two steps."""
        self._deferred = True

    @property
    def happened(self) -> bool:
        """Whether a signal came."""
        return self.number != 0

    @property
    def exit_code(self) -> int:
        """128 + the signal's number."""
        return 128 + self.number

    def _note(self, number: int, frame: object) -> None:
        if not self._deferred:
            raise StoppedBySignalError(number)
        self.number = self.number or number
