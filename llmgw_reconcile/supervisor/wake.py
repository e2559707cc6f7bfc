"""Sleep until a signal, a descriptor or a deadline, and remember what was asked for."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from typing import Protocol

from llmgw_reconcile.host.clock import Clock

NEVER = float("inf")
LONGEST_SLEEP = 86400.0  # poll(2) counts milliseconds in an int
WANTED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGIO)


class Waitable(Protocol):
    """Something under way with a descriptor."""

    def fileno(self) -> int:
        """The descriptor; negative when there is nothing to wait for."""

    @property
    def events(self) -> int:
        """select.POLLIN or select.POLLOUT."""


class Wake:
    """The one place where the supervisor sleeps. To ladders it is a clock whose sleeps end early on a signal."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stop_asked = False
        self._seen: set[int] = set()
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in WANTED:
            signal.signal(number, _take_note)  # a handler of Python's, so that the wake-up pipe is written
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def saw(self, number: signal.Signals) -> bool:
        """Whether this signal came since it was last asked for."""
        was_seen = number in self._seen
        self._seen.discard(number)
        return was_seen

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass, or less of it: a signal may mean that what is waited for has happened."""
        self.wait(self.monotonic() + seconds)

    def pause(self, seconds: float, fds: Iterable[int] = ()) -> bool:
        """Let all of the time pass, or what it takes until one of the descriptors has news; True if a stop is asked."""
        until, fds = self.monotonic() + seconds, tuple(fds)
        while not self.stop_asked and self.monotonic() < until:
            if self.wait(until, fds):
                break
        return self.stop_asked

    def wait(self, deadline: float, fds: Iterable[int] = (), waitable: Waitable | None = None) -> bool:
        """Sleep until one of them has news, at the latest until `deadline` (monotonic; NEVER for no deadline).

        True when a descriptor had it, and not only a signal or the clock.
        """
        poller = select.poll()
        poller.register(self._read, select.POLLIN)
        for fd in fds:
            poller.register(fd, select.POLLIN)
        if waitable is not None and waitable.fileno() >= 0:
            poller.register(waitable.fileno(), waitable.events)
        left = None if deadline == NEVER else min(LONGEST_SLEEP, max(0.0, deadline - self.monotonic())) * 1000
        ready = {fd for fd, _ in poller.poll(left)}
        if self._read in ready:
            self._remember(os.read(self._read, 4096))
        return bool(ready - {self._read})

    def _remember(self, numbers: bytes) -> None:
        self._seen.update(numbers)
        self.stop_asked |= signal.SIGTERM in numbers or signal.SIGINT in numbers


def _take_note(number: int, frame: object) -> None:
    """Nothing: the number is in the wake-up pipe."""
