"""Hand orders to new supervisors, through the one process that they are all forked from."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from llmgw_reconcile import supervisor
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.supervisor.orders import Orders
from llmgw_reconcile.supervisor.title import RESERVED

REPLY_SECONDS = 15.0
END_SECONDS = 2.0


class SupervisorTemplate:
    """Started with the first orders, ended by `close`; the supervisors live on."""

    def __init__(self) -> None:
        self._pid = 0
        self._orders = self._replies = -1
        self._pending = b""

    def send(self, orders: Orders) -> None:
        """Make a supervisor with these orders. Raises NodeError when it does not come up."""
        if not self._pid:
            self._start()
        data = orders.to_bytes()
        try:
            while data:
                data = data[os.write(self._orders, data) :]
        except OSError as error:
            raise NodeError(f"cannot start a supervisor for {orders.engine}: {error.strerror}") from None
        if problem := self._reply_for(orders.engine):
            raise NodeError(f"cannot start a supervisor for {orders.engine}: {problem}")

    def close(self) -> None:
        """Let the template end, and reap it."""
        if not self._pid:
            return
        os.close(self._orders)
        os.close(self._replies)
        deadline = time.monotonic() + END_SECONDS
        while not os.waitpid(self._pid, os.WNOHANG)[0]:
            if time.monotonic() >= deadline:
                os.kill(self._pid, signal.SIGKILL)  # our own child, not yet reaped: nobody else has its pid
                os.waitpid(self._pid, 0)
                break
            time.sleep(0.001)
        self._pid = 0

    def _start(self) -> None:
        orders_read, self._orders = os.pipe()
        self._replies, replies_write = os.pipe()
        main = os.path.join(os.path.dirname(os.path.abspath(supervisor.__file__)), "__main__.py")
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", main, " " * RESERVED],
                {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, orders_read, 0),
                    (os.POSIX_SPAWN_DUP2, replies_write, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsid=True,
            )
        except OSError as error:
            os.close(self._orders)
            os.close(self._replies)
            raise NodeError(f"cannot start supervisors: {error.strerror}") from None
        finally:
            os.close(orders_read)
            os.close(replies_write)

    def _reply_for(self, engine: str) -> str:
        deadline = time.monotonic() + REPLY_SECONDS
        poller = select.poll()
        poller.register(self._replies, select.POLLIN)
        while True:
            line, gap, rest = self._pending.partition(b"\n")
            if gap:
                self._pending = rest
                reply = json.loads(line)
                if reply["engine"] == engine:
                    return str(reply["problem"])
                continue
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return f"no answer within {REPLY_SECONDS:g} s"
            data = os.read(self._replies, 65536)
            if not data:
                return "it ended before it answered"
            self._pending += data
