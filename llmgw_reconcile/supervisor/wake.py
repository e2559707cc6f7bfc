"""Sleep until a signal, a descriptor or a deadline, and remember what was asked for."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from typing import Protocol

from llmgw_reconcile.host.clock import Clock

NEVER = float("inf")
WANTED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGIO)


class Waitable(Protocol):
    """Something under way with a descriptor."""

    def fileno(self) -> int:
        """The descriptor; negative when there is nothing to wait for."""

    @property
    def events(self) -> int:
        """select.POLLIN or select.POLLOUT."""


class Wake:
    """The one place where the supervisor sleeps."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.stop_asked = False
        self.budgets_changed = False
        self.log_written = False
        self._read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in WANTED:
            signal.signal(number, _take_note)  # a handler of Python's, so that the wake-up pipe is written
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def wait(self, deadline: float, pidfds: Iterable[int] = (), waitable: Waitable | None = None) -> None:
        """Sleep until one of them has news, at the latest until `deadline` (monotonic; NEVER for no deadline)."""
        poller = select.poll()
        poller.register(self._read, select.POLLIN)
        for fd in pidfds:
            poller.register(fd, select.POLLIN)
        if waitable is not None and waitable.fileno() >= 0:
            poller.register(waitable.fileno(), waitable.events)
        left = None if deadline == NEVER else max(0.0, deadline - self.clock.monotonic()) * 1000
        for fd, _ in poller.poll(left):
            if fd == self._read:
                self._remember(os.read(fd, 4096))

    def sleep(self, seconds: float) -> bool:
        """Let time pass; True as soon as a stop is asked for."""
        until = self.clock.monotonic() + seconds
        while not self.stop_asked and self.clock.monotonic() < until:
            self.wait(until)
        return self.stop_asked

    def _remember(self, numbers: bytes) -> None:
        self.stop_asked |= signal.SIGTERM in numbers or signal.SIGINT in numbers
        self.budgets_changed |= signal.SIGHUP in numbers
        self.log_written |= signal.SIGIO in numbers


def _take_note(number: int, frame: object) -> None:
    """Nothing: the number is in the wake-up pipe."""
