"""The template from which supervisors are forked: one order in on descriptor 0, one supervisor out.

Started as `python -I -S .../supervisor/__main__.py PADDING`. Forking costs a tenth of an interpreter start, and the
supervisors share their memory. It ends when its orders end; the supervisors live on in sessions of their own.
"""

from __future__ import annotations

import os
import signal
import sys

if __package__ in (None, ""):  # started by its path, without site: the package is two folders up
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import fcntl
import json

from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.libc import become_subreaper
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.supervisor.life import Life
from llmgw_reconcile.supervisor.orders import Orders, read_frame
from llmgw_reconcile.supervisor.records import Records
from llmgw_reconcile.supervisor.spawn import prepare
from llmgw_reconcile.supervisor.title import set_title
from llmgw_reconcile.supervisor.wake import Wake

ORDERS_FD, REPLIES_FD = 0, 1


def main() -> None:
    """Fork a supervisor for each frame of orders until there are no more."""
    os.closerange(3, 1 << 20)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while (frame := read_frame(ORDERS_FD)) is not None:
        if os.fork() == 0:
            _be_supervisor(frame)
        _reap_ended()


def _be_supervisor(frame: bytes) -> None:
    code = 1
    try:
        os.setsid()
        code = _supervise(Orders.from_bytes(frame))
    finally:
        os._exit(code)


def _supervise(orders: Orders) -> int:
    set_title(" ".join(["llmgw: supervisor", orders.engine, ",".join(orders.gpus)]).strip())
    replies = os.dup(REPLIES_FD)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    folder = EngineDir(orders.folder)
    lock = os.open(folder.supervisor_lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        _reply(replies, orders.engine, "it has a supervisor already")
        return 1
    wake = Wake(SystemClock())
    prepare(folder)
    become_subreaper()
    records = Records(orders.engine, folder, orders.launch)
    records.publish_phase(Phase.STARTING, restarts=orders.adoption.restarts if orders.adoption else 0)
    _reply(replies, orders.engine, "")
    Life(orders, records, wake).live()
    return 0


def _reply(fd: int, engine: str, problem: str) -> None:
    """One line, short enough to be written whole beside other supervisors' lines; nobody may be listening."""
    try:
        os.write(fd, json.dumps({"engine": engine, "problem": problem}).encode() + b"\n")
    except OSError:
        pass
    os.close(fd)


def _reap_ended() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
