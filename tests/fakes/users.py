"""Other users of the machine, played by forks of the test: nothing has to be executed as them, only root can do it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


def told_as(uid: int, question: Callable[[], object]) -> str:
    """What the question answers to that user, or the name of the exception that it gets."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(writer, 3)
            os.closerange(4, 1 << 16)  # what the test has open is not that user's
            os.setgroups([])
            os.setuid(uid)
            try:
                answer = str(question())
            except Exception as error:
                answer = type(error).__name__
            os.write(3, answer.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


@contextmanager
def sleeper_of(uid: int) -> Iterator[int]:
    """A process of that user, in our session; it may not be dumped, as after every change of the user."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setuid(uid)
            os.write(writer, b"!")
            signal.pause()
        finally:
            os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
