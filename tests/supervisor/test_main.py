"""Supervisors as processes of their own: what they give their engine, what they survive, and what they cost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.family import find_marked
from llmgw_reconcile.host.proc import all_stats, environment_holds
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor.orders import Adoption, Orders
from tests.fakes.disk import full_disk
from tests.fakes.nvidia_smi import uuid_of
from tests.fakes.procs import command_line, is_alive, parent_of, until
from tests.fakes.supervised import Place
from tests.fakes.users import NOBODY, root_only, told_as

ROOT = str(Path(__file__).parents[2])
PYTHON_IGNORES = (1 << (signal.SIGPIPE - 1)) | (1 << (signal.SIGXFSZ - 1))  # CPython itself
OF_THE_C_LIBRARY = 0b11 << 31  # signals 32 and 33, which it lets nobody change

# A caller that leaves its children nothing in order: descriptors, signals, limits, mask and working directory.
BAD_PARENT = """
import os, resource, signal, sys
sys.path.insert(0, sys.argv[1])
from llmgw_reconcile.supervise.template import SupervisorTemplate
from llmgw_reconcile.supervisor.orders import Orders, read_frame
orders = Orders.from_bytes(read_frame(0))
for number in (7, 8):
    os.dup2(os.open("/etc/passwd", os.O_RDONLY), number, inheritable=True)
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGALRM])
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
os.umask(0o077)
os.environ["CANARY"] = "1"
folder = sys.argv[2]
os.mkdir(folder); os.chdir(folder); os.rmdir(folder)
os.close(0)
template = SupervisorTemplate()
template.send(orders)
template.close()
"""


def view_of(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(until(lambda: path.exists() and path.read_text()))
    return document


def test_whatever_the_caller_leaves_its_children_the_engine_gets_what_it_should(place: Place) -> None:
    path = place.root / "view"
    orders = place.orders(stub={"VIEW": path}, env={"HF_HUB_OFFLINE": "1"}, launch="f00d")
    argv = [sys.executable, "-ISc", BAD_PARENT, ROOT, str(place.root / "gone")]
    subprocess.run(argv, input=orders.to_bytes(), check=True, timeout=60)
    view = view_of(path)
    folder = place.folder()
    assert view["fds"] == {"0": "/dev/null", "1": folder.log, "2": folder.log}
    signals = {name: int(mask, 16) for name, mask in view["signals"].items()}
    assert (signals["SigBlk"], signals["SigIgn"] & ~OF_THE_C_LIBRARY) == (0, PYTHON_IGNORES)
    assert (view["pgid"], view["sid"]) == (view["pid"], view["pid"])
    assert view["limits"]["nofile"][0] == view["limits"]["nofile"][1]
    assert view["limits"]["memlock"][0] == view["limits"]["memlock"][1]
    assert view["limits"]["core"][0] == 0
    assert (view["cwd"], view["umask"]) == (folder.work, 0o022)
    assert view["env"].pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"  # what CPython adds for itself
    assert view["env"] == orders.env | {"LLMGW_LAUNCH": "f00d"}
    assert view["ppid"] == place.supervisor()


def test_a_supervisor_is_a_session_of_its_own_that_names_engine_and_gpus(place: Place) -> None:
    place.gpus()
    place.supervise(place.orders(stub={}, gpus=(uuid_of(0), uuid_of(1))))
    place.until("ready")
    supervisor = place.supervisor()
    assert os.getsid(supervisor) == supervisor
    assert parent_of(supervisor) == 1 or parent_of(supervisor) != os.getpid()
    assert parent_of(place.leader()) == supervisor
    assert command_line(supervisor) == f"llmgw: supervisor chat@0 {uuid_of(0)},{uuid_of(1)}"
    links = {os.readlink(f"/proc/{supervisor}/fd/{number}") for number in (0, 1, 2)}
    assert links == {"/dev/null"}


@root_only
def test_every_user_sees_which_gpus_a_supervisor_holds(place: Place) -> None:
    place.supervise(place.orders(argv=("/bin/sleep", "600")))
    supervisor = place.supervisor()
    assert told_as(NOBODY, lambda: command_line(supervisor)) == "llmgw: supervisor chat@0"


def test_an_engine_has_one_supervisor(place: Place) -> None:
    orders = place.orders(stub={})
    place.supervise(orders)
    place.until("ready")
    leader = place.leader()
    with pytest.raises(NodeError, match="cannot start a supervisor for chat@0: it has a supervisor already"):
        place.supervise(orders)
    assert (place.phase(), place.leader()) == ("ready", leader)


def test_several_engines_are_supervised_side_by_side(place: Place) -> None:
    place.supervise(*(place.orders(f"chat@{number}", stub={}) for number in range(4)))
    for number in range(4):
        place.until("ready", f"chat@{number}")
    assert len({place.supervisor(f"chat@{number}") for number in range(4)}) == 4
    place.stop("chat@2")
    assert [place.phase(f"chat@{number}") for number in range(4)] == ["ready", "ready", "stopped", "ready"]


def test_no_engine_is_started_without_a_record(place: Place) -> None:
    with full_disk() as disk:
        orders = place.orders(argv=("/bin/sleep", "600"))._replace(folder=str(disk))
        for name in ("work", "log"):
            (disk / name).mkdir(mode=0o700)
        disk.fill()
        with pytest.raises(NodeError, match=r"cannot start a supervisor for chat@0: .*No space left on device"):
            place.supervise(orders)
        assert not list((disk / "log").iterdir())


@pytest.mark.parametrize("planted", ["symlink", "fifo"])
def test_a_planted_lock_is_refused_in_words(place: Place, planted: str) -> None:
    lock = place.folder().supervisor_lock
    victim = place.root / "victim"
    victim.write_text("unharmed")
    os.symlink(victim, lock) if planted == "symlink" else os.mkfifo(lock)
    with pytest.raises(NodeError, match=r"cannot open the lock .*/supervisor.lock"):
        place.supervise(place.orders(stub={}))
    assert victim.read_text() == "unharmed"


def test_strays_that_left_group_and_session_are_ended_with_the_engine(place: Place) -> None:
    stub = {"WORKERS": 3, "WORKER_SETSID": 1, "WORKER_DOUBLE_FORK": 1, "WORKER_RENAME": 1, "WORKER_IGNORE_TERM": 1}
    place.supervise(place.orders(stub=stub))
    place.until("ready")
    workers = until(lambda: len(found := strays(place)) == 3 and found)
    assert {parent_of(worker) for worker in workers} == {place.supervisor()}
    place.stop()
    assert place.phase() == "stopped"
    assert not any(map(is_alive, workers))


def strays(place: Place) -> list[int]:
    mine = place.supervisor()
    return [s.pid for s in all_stats() if s.ppid == mine and s.is_alive and "VLLM::Worker" in command_line(s.pid)]


def test_strays_are_ended_before_an_engine_comes_back(place: Place) -> None:
    stub = {"WORKERS": 2, "WORKER_SETSID": 1, "WORKER_DOUBLE_FORK": 1, "WORKER_RENAME": 1, "WORKER_IGNORE_TERM": 1}
    place.supervise(place.orders(stub=stub))
    place.until("ready")
    workers = until(lambda: len(found := strays(place)) == 2 and found)
    place.kill(place.leader())
    place.until("ready", restarts=1)
    assert not any(map(is_alive, workers))


# -- the supervisor is killed


def kill_supervisor(place: Place) -> None:
    place.kill(place.supervisor())
    until(lambda: not is_alive(place.supervisor()))


def adopted(place: Place, orders: Orders) -> Orders:
    """The orders with which an apply gives the engine a new supervisor."""
    record = place.record("pid.json")
    members = tuple(ProcessId(*member) for member in record["members"])
    leader = ProcessId(record["pid"], record["ticks"])
    return orders._replace(adoption=Adoption(leader, members, was_ready=record["was_ready"], restarts=0))


def test_an_engine_does_not_notice_the_end_of_its_supervisor_and_gets_a_new_one(place: Place) -> None:
    orders = place.orders(stub={})
    place.supervise(orders)
    place.until("ready")
    leader = place.leader()
    old = place.supervisor()
    kill_supervisor(place)
    assert is_alive(leader)
    place.supervise(adopted(place, orders))
    assert place.phase() == "ready"  # at once: nobody was away
    assert place.supervisor() != old
    assert place.leader() == leader
    place.stop()
    assert place.phase() == "stopped"
    assert not is_alive(leader)


def test_workers_whose_leader_and_supervisor_were_killed_while_loading_are_known(place: Place) -> None:
    """They renamed themselves and erased their environment: the record alone proves them."""
    place.supervise(place.orders(stub={"WORKERS": 2, "WORKER_RENAME": 1, "LOAD_DELAY": 600}))
    place.until("loading")
    until(lambda: len(place.record("pid.json")["members"]) == 3)
    leader = place.leader()
    kill_supervisor(place)
    place.kill(leader)
    workers = [pid for pid, _ in place.record("pid.json")["members"] if is_alive(pid)]
    assert len(workers) == 2
    for worker in workers:
        place.kill(worker)


@pytest.mark.parametrize("round_", range(12))
def test_a_kill_at_any_instant_of_a_start_leaves_an_engine_that_is_found(place: Place, round_: int) -> None:
    orders = place.orders(argv=("/bin/sleep", "600"))
    of_old = {"pid": 4194305, "ticks": 1}  # of a run that ended while nobody watched
    Path(place.folder().file("pid.json")).write_text(json.dumps(of_old))
    place.supervise(orders)
    time.sleep(random.Random(round_).uniform(0.0, 0.02))
    kill_supervisor(place)
    mark = f"LLMGW_LAUNCH={orders.launch}"
    engines = [stat.id for stat in all_stats() if stat.is_alive and environment_holds(stat.pid, mark)]
    record = place.record("pid.json")
    if record == of_old:
        assert engines == []
    else:
        found = ProcessId(record["pid"], record["ticks"]) if record else find_marked(orders.launch)
        assert [found] == (engines or [None])
    for engine in engines:
        place.kill(engine.pid)


def test_a_bug_leaves_last_words_and_an_engine_that_lives(place: Place) -> None:
    orders = place.orders(argv=("/bin/sleep", "600"), start_timeout="soon")
    place.supervise(orders)
    crash = until(lambda: list(place.root.glob("engines/*/supervisor.crash")))[0]
    assert "TypeError" in crash.read_text()
    assert is_alive(place.leader())
    crash.unlink()
    place.kill(place.leader())


def test_an_adopted_engine_whose_log_is_a_fifo_keeps_its_record(place: Place) -> None:
    orders = place.orders(stub={})
    place.supervise(orders)
    place.until("ready")
    kill_supervisor(place)
    os.unlink(place.folder().log)
    os.mkfifo(place.folder().log)
    place.supervise(adopted(place, orders))
    place.until("failed")
    assert "is not a plain file" in place.detail()
    assert is_alive(place.leader())
    place.kill(place.leader())


# -- the log


def test_a_flood_into_the_log_is_bounded_and_its_end_is_there(place: Place) -> None:
    place.supervise(place.orders(stub={"LOG_BYTES": 150 << 20, "LOG_LINE_BYTES": 100}))
    place.until("ready")
    log = Path(place.folder().log)
    until(lambda: log.read_bytes()[-200:].endswith(b"the newest line of the log\n"), seconds=60)
    until(lambda: log.stat().st_size <= 32 << 20)
    assert log.stat().st_blocks * 512 <= 33 << 20
    assert log.read_bytes().startswith(b"INFO: vllm stub")


def test_a_log_that_was_deleted_does_no_harm(place: Place) -> None:
    place.supervise(place.orders(stub={"LOG_EVERY": 0.01, "LOAD_DELAY": 600}))
    place.until("loading")
    os.unlink(place.folder().log)
    time.sleep(0.05)
    place.stop()
    assert place.phase() == "stopped"


# -- what it costs


def switches(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_nothing_wakes_a_supervisor_at_rest(place: Place) -> None:
    place.supervise(place.orders(stub={}))
    place.until("ready")
    supervisor = place.supervisor()
    until(lambda: (before := switches(supervisor), time.sleep(0.2)) and before == switches(supervisor))
    before = switches(supervisor)
    time.sleep(2.0)
    assert switches(supervisor) == before


def mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(field)


def test_eight_supervisors_at_rest_are_small(place: Place) -> None:
    names = [f"chat@{number}" for number in range(8)]
    place.supervise(*(place.orders(name, stub={}) for name in names))
    for name in names:
        place.until("ready", name)
    supervisors = [place.supervisor(name) for name in names]
    until(lambda: max(mib(pid, "Rss") for pid in supervisors) < 11)  # once they have given back what starts needed
    assert max(mib(pid, "Pss") for pid in supervisors) < 5


def test_an_engine_that_answers_is_ready_in_a_moment(place: Place) -> None:
    place.supervise(place.orders(stub={"LISTEN_DELAY": 0.5}))
    place.until("ready")
    log = Path(place.folder().log).stat().st_mtime  # of its last line, "startup complete"
    ready = Path(place.folder().file("phase.json")).stat().st_mtime
    assert ready - log < 0.5  # some 20 ms on a machine that has nothing else to do


def test_a_crash_without_gpus_is_answered_in_a_moment(place: Place) -> None:
    place.supervise(place.orders(stub={}))
    place.until("ready")
    leader = place.leader()
    before = time.monotonic()
    place.kill(leader)
    until(lambda: place.record("pid.json").get("pid", leader) != leader)
    assert time.monotonic() - before < 1.0  # some 10 ms on a machine that has nothing else to do
    place.until("ready", restarts=1)
