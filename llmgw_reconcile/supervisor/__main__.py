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

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.files import write_atomic
from llmgw_reconcile.host.libc import become_subreaper
from llmgw_reconcile.host.lock import open_lock
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.process import Phase
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
            _be_supervisor(Orders.from_bytes(frame))
        _reap_ended()


def _be_supervisor(orders: Orders) -> None:
    """Never returns."""
    code = 1
    try:
        os.setsid()
        code = _supervise(orders)
    except BaseException:  # noqa: BLE001 - a bug: nobody else would hear of it, and its engine serves on
        _leave_last_words(EngineDir(orders.folder))
    finally:
        os._exit(code)


def _supervise(orders: Orders) -> int:
    set_title(" ".join(["llmgw: supervisor", orders.engine, ",".join(orders.gpus)]).strip())
    replies = os.dup(REPLIES_FD)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    folder = EngineDir(orders.folder)
    records = Records(orders.engine, folder, orders.launch)
    wake = Wake(SystemClock())
    problem = _prepare(orders, folder, records)
    _reply(replies, orders.engine, problem)
    if problem:
        return 1
    Life(orders, records, wake).live()
    return 0


def _prepare(orders: Orders, folder: EngineDir, records: Records) -> str:
    """Take the engine's lock, and publish its first phase; why that cannot be, in words."""
    try:
        fcntl.flock(open_lock(folder.supervisor_lock), fcntl.LOCK_EX | fcntl.LOCK_NB)
        prepare(folder)
    except BlockingIOError:
        return "it has a supervisor already"
    except (NodeError, OSError) as error:
        return str(error)
    become_subreaper()
    adoption = orders.adoption
    phase = Phase.READY if adoption is not None and adoption.was_ready else Phase.STARTING
    records.publish_phase(phase, restarts=adoption.restarts if adoption else 0)
    return records.trouble  # no engine without a record


def _reply(fd: int, engine: str, problem: str) -> None:
    """One line, short enough to be written whole beside other supervisors' lines; nobody may be listening."""
    try:
        os.write(fd, json.dumps({"engine": engine, "problem": problem}).encode() + b"\n")
    except OSError:
        pass
    os.close(fd)


def _leave_last_words(folder: EngineDir) -> None:
    import traceback

    try:
        write_atomic(folder.file("supervisor.crash"), traceback.format_exc().encode())
    except (NodeError, OSError):
        pass


def _reap_ended() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main()
