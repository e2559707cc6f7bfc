"""One run of an engine: its leader, the processes that are surely its, and its log."""

from __future__ import annotations

import os

from llmgw_reconcile.host.family import Family, living_members
from llmgw_reconcile.host.proc import ProcessStat, children_of, identify, is_alive
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor.log_bound import LogBound
from llmgw_reconcile.supervisor.orders import Adoption, Orders
from llmgw_reconcile.supervisor.spawn import EngineProcess, Exit, spawn_engine
from llmgw_reconcile.supervisor.wake import NEVER


class Run:
    """A live run; `close` it when it has ended."""

    def __init__(
        self,
        process: EngineProcess,
        log: LogBound,
        launch: str,
        members: tuple[ProcessId, ...],
        bystanders: frozenset[ProcessId],
    ) -> None:
        self.process, self.log, self.members = process, log, members
        self.was_ready = False
        self.ready_since: float | None = None  # monotonic, as far as this supervisor has seen
        self._launch, self._bystanders = launch, bystanders
        self._log_size, self._log_at = -1, 0.0

    @classmethod
    def start(cls, orders: Orders) -> Run:
        """Spawn the engine. Raises OSError when that fails; nothing is left then."""
        folder = EngineDir(orders.folder)
        try:
            os.replace(folder.log, folder.previous_log)
        except FileNotFoundError:
            pass
        log, bystanders = LogBound(folder.log, fresh=True), _own_children()
        try:
            process = spawn_engine(orders, folder)
        except OSError:
            log.close()
            raise
        return cls(process, log, orders.launch, (process.id,), bystanders)

    @classmethod
    def adopt(cls, orders: Orders, adoption: Adoption) -> Run:
        """Watch an engine that runs already. Raises OSError when it is gone, or its log is no plain file."""
        log = LogBound(EngineDir(orders.folder).log, fresh=False)
        try:
            process = EngineProcess(adoption.leader, is_child=False)
        except OSError:
            log.close()
            raise
        run = cls(process, log, orders.launch, adoption.members, _own_children())
        run.was_ready = adoption.was_ready
        return run

    def find_members(self) -> tuple[ProcessStat, ...]:
        """The living processes of the engine, proven."""
        return living_members(
            Family(self.process.id, frozenset(self.members), self._launch, os.getpid(), self._bystanders)
        )

    def find_pids(self) -> tuple[int, ...]:
        """Their pids; the processes are remembered."""
        found = self.find_members()
        self.remember(tuple(stat.id for stat in found))
        return tuple(stat.pid for stat in found)

    def remember(self, members: tuple[ProcessId, ...]) -> None:
        """Note processes that are surely the engine's, for the day when its leader is gone."""
        self.members = tuple(sorted(filter(is_alive, {*self.members, *members})))

    def poll(self) -> Exit | None:
        """How the leader ended; None while it lives. Reaps strays that became our children."""
        ended = self.process.poll()
        while _reap_one_stray(self.process.id.pid, leader_is_reaped=ended is not None):
            pass
        return ended

    def tend(self) -> None:
        """What a ladder does while it waits: reap, so that zombies are no survivors, and keep the log bounded."""
        self.poll()
        self.log.look()

    def bound_log(self, now: float, *, written: bool) -> float:
        """Keep the log bounded; when to look again (monotonic): NEVER once it is quiet, a write wakes us then."""
        if now >= self._log_at or written:
            self._log_at = self._look_at_log(now)
        return self._log_at

    def _look_at_log(self, now: float) -> float:
        has_grown = self.log.size != self._log_size
        pause = self.log.look()
        self._log_size = self.log.size
        if has_grown:
            return now + pause
        self.log.arm()
        # A write between the look and the notification would go unseen.
        return now if self.log.size != self._log_size else NEVER

    def close(self) -> None:
        """Stop watching."""
        self.process.close()
        self.log.close()


def _own_children() -> frozenset[ProcessId]:
    """Those that are no part of an engine: a tool that hangs in a broken driver outlives even SIGKILL."""
    return frozenset(filter(None, map(identify, children_of(os.getpid()))))


def _reap_one_stray(leader: int, *, leader_is_reaped: bool) -> bool:
    """Reap one ended child that is not the leader: the leader's exit status is for `EngineProcess` alone."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None or (found.si_pid == leader and not leader_is_reaped):
            return False
        os.waitpid(found.si_pid, os.WNOHANG)
    except ChildProcessError:
        return False
    return True
