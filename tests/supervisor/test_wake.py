"""One sleep for signals, descriptors and deadlines."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmgw_reconcile.supervisor.wake import NEVER, Wake


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_remembered_for_good(wake: Wake, number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    assert not wake.stop_asked  # nobody has looked yet
    wake.wait(NEVER)
    assert wake.stop_asked
    assert wake.pause(600)
    assert wake.stop_asked


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGIO, signal.SIGCHLD])
def test_other_news_is_told_once(wake: Wake, number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    wake.wait(NEVER)
    assert not wake.stop_asked
    assert [wake.saw(number), wake.saw(number)] == [True, False]


def test_signals_that_were_blocked_or_ignored_by_the_parent_come_through() -> None:
    root = str(Path(__file__).parents[2])
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from llmgw_reconcile.host.clock import SystemClock\n"
        "from llmgw_reconcile.supervisor.wake import NEVER, Wake\n"
        "wake = Wake(SystemClock())\n"
        "for number in (1, 2, 15): os.kill(os.getpid(), number)\n"
        "wake.wait(NEVER)\n"
        "print(wake.stop_asked, wake.saw(signal.SIGHUP), wake.saw(signal.SIGINT))\n"
    )

    def spoil() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    done = subprocess.run(
        [sys.executable, "-ISc", code, root], preexec_fn=spoil, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True True\n"


def test_a_descriptor_with_news_ends_the_wait(wake: Wake) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"!")
    assert wake.wait(NEVER, (reader,))
    assert not wake.pause(600, (reader,))
    os.close(reader)
    os.close(writer)


def test_a_deadline_ends_the_wait(wake: Wake) -> None:
    before = time.monotonic()
    assert not wake.wait(before + 0.05)
    assert 0.04 < time.monotonic() - before < 2


def test_a_deadline_that_is_past_is_no_wait(wake: Wake) -> None:
    assert not wake.wait(0.0)


def test_a_deadline_in_a_thousand_years_is_no_error(wake: Wake) -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    assert not wake.wait(time.monotonic() + 3e10)


def test_a_sleep_of_a_ladder_ends_early_on_a_signal(wake: Wake) -> None:
    os.kill(os.getpid(), signal.SIGCHLD)
    before = time.monotonic()
    wake.sleep(30)
    assert time.monotonic() - before < 5


def test_a_pause_goes_on_after_a_signal_that_asks_for_nothing(wake: Wake) -> None:
    os.kill(os.getpid(), signal.SIGCHLD)
    before = time.monotonic()
    assert not wake.pause(0.1)
    assert time.monotonic() - before >= 0.1


def test_a_pause_ends_when_a_stop_is_asked_for(wake: Wake) -> None:
    child = subprocess.Popen(["sh", "-c", f"kill -TERM {os.getpid()}"])
    assert wake.pause(30)
    child.wait()


class Waitable:
    """An exchange that wants to write."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    @property
    def events(self) -> int:
        return select.POLLOUT


def test_something_under_way_is_waited_for_as_it_wants(wake: Wake) -> None:
    reader, writer = os.pipe()
    assert wake.wait(NEVER, (), Waitable(writer))
    os.close(reader)
    os.close(writer)


def test_something_that_is_over_is_not_waited_for(wake: Wake) -> None:
    assert not wake.wait(time.monotonic() + 0.01, (), Waitable(-1))
