"""Signals to a command: at once while it only looks, between two steps while it acts."""

from __future__ import annotations

import signal

from llmgw_reconcile.errors import SignalInterrupt

INTERRUPTED = "interrupted: what was started lives on; `llmgw status` shows it"
WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Remembers the first signal; raises SignalInterrupt at once until `defer` is called."""

    def __init__(self, meanwhile: str = "nothing was changed") -> None:
        self.meanwhile = meanwhile  # what to say of the node when the command ends at once
        self._number = 0
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
        return self._number != 0

    @property
    def exit_code(self) -> int:
        """128 + the signal's number."""
        return 128 + self._number

    def _note(self, number: int, frame: object) -> None:
        if not self._deferred:
            self._deferred = True  # a second one must not strike while the first is taken to its end
            raise SignalInterrupt(number, f"interrupted by {signal.Signals(number).name}; {self.meanwhile}")
        self._number = self._number or number
