"""Sleep until a signal, a descriptor or a deadline, and remember what the signals asked for."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from typing import Protocol

from llmgw_reconcile.host.clock import Clock

LONGEST_SLEEP = 3600.0  # seconds; poll(2) counts milliseconds in an int


class EndAskedError(BaseException):
    """SIGTERM or SIGINT came while nothing was being changed: no `except Exception` may swallow it."""


class Bell(Protocol):
    """What the loop sleeps on."""

    end_asked: bool
    reconcile_asked: bool

    def wait(self, deadline: float, fds: Iterable[int] = ()) -> None:
        """Sleep until then (monotonic), or less when a signal comes or a descriptor has news."""

    def looking(self) -> None:
        """From now on nothing is changed: a wish to end raises EndAskedError. Raises it too when there is one."""

    def acting(self) -> None:
        """From now on a wish to end is only remembered, and taken between two steps."""


class SignalBell:
    """The real one: SIGTERM and SIGINT ask for the end, SIGHUP asks to reconcile now."""

    def __init__(self, clock: Clock) -> None:
        self.end_asked = False
        self.reconcile_asked = False
        self._clock = clock
        self._is_looking = False
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._reconcile)

    def wait(self, deadline: float, fds: Iterable[int] = ()) -> None:
        """Sleep until then (monotonic), or less when a signal comes or a descriptor has news."""
        poller = select.poll()
        for fd in (self._read, *fds):
            poller.register(fd, select.POLLIN)
        left = min(LONGEST_SLEEP, max(0.0, deadline - self._clock.monotonic()))
        if any(fd == self._read for fd, _ in poller.poll(left * 1000)):
            os.read(self._read, 4096)

    def looking(self) -> None:
        """From now on nothing is changed: a wish to end raises EndAskedError. Raises it too when there is one."""
        self._is_looking = True
        if self.end_asked:
            raise EndAskedError

    def acting(self) -> None:
        """From now on a wish to end is only remembered, and taken between two steps."""
        self._is_looking = False

    def _end(self, number: int, frame: object) -> None:
        self.end_asked = True
        if self._is_looking:
            raise EndAskedError

    def _reconcile(self, number: int, frame: object) -> None:
        self.reconcile_asked = True
