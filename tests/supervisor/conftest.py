"""A place for supervisors and engines, watched by innocent bystanders."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.supervisor.wake import WANTED, Wake
from tests.fakes.procs import bystanders
from tests.fakes.supervised import Place
from tests.fakes.wakes import QuickWake

AnyWake = TypeVar("AnyWake", bound=Wake)


@pytest.fixture
def place() -> Iterator[Place]:
    """Nothing of it may be left afterwards, and nobody else may have been touched."""
    root = Path(tempfile.mkdtemp(prefix="lg-"))  # not tmp_path: names of sockets must be short
    with bystanders():
        found = Place(root)
        try:
            yield found
        finally:
            found.leave()


@pytest.fixture
def wake() -> Iterator[Wake]:
    """The real one in this very process, whose signal handlers come back afterwards."""
    yield from _installed(lambda: Wake(SystemClock()))


@pytest.fixture
def quick() -> Iterator[QuickWake]:
    """The same, for tests that do not want to wait."""
    yield from _installed(QuickWake)


def _installed(make: Callable[[], AnyWake]) -> Iterator[AnyWake]:
    handlers = {number: signal.getsignal(number) for number in WANTED}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    made = make()
    yield made
    writer = signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(writer)
    os.close(made._read)
