"""Carry out one thing for one engine: start, adopt, stop, hold, update its bookkeeping, or remove its records."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.gpu_memory import what_stays
from llmgw_reconcile.discovery.processes import find_processes
from llmgw_reconcile.discovery.records import EngineRecords, read_records
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.host.family import living_members
from llmgw_reconcile.host.files import remove_tree
from llmgw_reconcile.host.proc import boot_id, is_alive, send_signal
from llmgw_reconcile.host.state_dir import EngineDir, StateDir
from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB
from llmgw_reconcile.model.observed import ObservedEngine, ProcessId
from llmgw_reconcile.model.spec import Document
from llmgw_reconcile.supervise.intent import Intent, recorded_intent, write_intent, write_spec
from llmgw_reconcile.supervise.resolve import copy_files, resolve_launch
from llmgw_reconcile.supervise.template import SupervisorTemplate
from llmgw_reconcile.supervisor.ladder import KILL_WAIT_SECONDS, StopOutcome, StopResult, stop_family
from llmgw_reconcile.supervisor.orders import Adoption, Budgets, Orders, Target

POLL_SECONDS = 0.02
LEFTOVER_GRACE_SECONDS = 1.0  # workers whose leader is gone serve nobody
SLACK_SECONDS = 10.0  # what a supervisor may need on top of its engine's grace
DEFAULT_GRACE_SECONDS = 60.0  # of an engine whose own is not known
MEMORY_WAIT_SECONDS = 10.0  # until an ended engine's GPU memory must have come back
MEMORY_PAUSE_SECONDS = 0.5


class Operations(NamedTuple):
    """What every operation needs of this node. Each raises NodeError saying why it cannot be done."""

    state_dir: StateDir
    environ: Mapping[str, str]
    template: SupervisorTemplate
    clock: Clock
    held_above_mb: int = DEFAULT_HELD_ABOVE_MB

    def records(self, name: str) -> EngineRecords:
        """What is recorded of an engine."""
        return read_records(name, self.state_dir.engine(name))

    def start(self, intent: Intent) -> None:
        """Write the intent and start a supervisor with it. When that fails, nothing of the engine runs."""
        folder = self.state_dir.engine(intent.engine)
        folder.create()
        copy_files(intent.launch, folder)
        orders = self._orders(intent)
        self.template.send(orders._replace(launch=write_intent(intent, folder)))

    def adopt(self, engine: ObservedEngine) -> None:
        """Give a running engine that lost its supervisor a new one; no signal, no restart."""
        records = self.records(engine.engine)
        intent = recorded_intent(records)
        if engine.live is None or intent is None:
            raise NodeError(f"cannot adopt {engine.engine}: its records are incomplete")
        pid = records.pid if records.pid is not None and records.pid.leader == engine.live else None
        adoption = Adoption(
            engine.live, pid.members if pid else (engine.live,), pid.was_ready if pid else False, engine.restarts
        )
        self.template.send(self._orders(intent)._replace(launch=records.launch_id, adoption=adoption))

    def update(self, engine: ObservedEngine, bookkeeping: Document) -> None:
        """Write new bookkeeping, and tell the supervisor to read it."""
        intent = recorded_intent(self.records(engine.engine))
        if intent is None:
            raise NodeError(f"cannot update {engine.engine}: its records are incomplete")
        write_spec(intent._replace(bookkeeping=bookkeeping), self.state_dir.engine(engine.engine))
        if engine.supervisor is not None:
            send_signal(engine.supervisor, signal.SIGHUP)

    def hold(self, name: str) -> None:
        """Note, before it is stopped, that a person wants it so: only a restart or an apply starts it again."""
        intent = recorded_intent(self.records(name))
        if intent is not None:
            write_spec(intent, self.state_dir.engine(name), held=True)

    def stop(self, name: str) -> StopResult:
        """Stop an engine and prove it: through its supervisor, or by ourselves where it has none."""
        records = self.records(name)
        supervisor = live_supervisor(records)
        outcome = StopOutcome.ALREADY_GONE
        if supervisor is not None:
            send_signal(supervisor, signal.SIGTERM)
            self._await_end(supervisor, _grace(records) + KILL_WAIT_SECONDS + SLACK_SECONDS)
            after = self.records(name)
            outcome = StopOutcome.KILLED if _was_killed(after) else StopOutcome.TERMINATED
            records = after._replace(pid=after.pid or records.pid)
        result = self._end_family(records)
        return StopResult(outcome) if result.outcome is StopOutcome.ALREADY_GONE else result

    def await_memory(self, name: str) -> tuple[str, ...]:
        """Wait until the GPU memory of an engine that has ended came back; the words for what did not, in time.

        Raises NodeError when the memory cannot be asked for.
        """
        launch = self.records(name).launch
        gpus = tuple(launch["document"].get("gpus", ())) if launch else ()
        deadline = self.clock.monotonic() + MEMORY_WAIT_SECONDS
        while (left := what_stays(gpus, self.held_above_mb)) and self.clock.monotonic() < deadline:
            self.clock.sleep(MEMORY_PAUSE_SECONDS)
        return left

    def forget(self, name: str) -> None:
        """Remove the records of an engine that is proven stopped."""
        folder = self.state_dir.engine(name)
        if not folder.tmp.startswith(folder.path):
            remove_tree(folder.tmp)
        remove_tree(folder.path)

    def _orders(self, intent: Intent) -> Orders:
        """What a supervisor must know; its launch is still to be filled in."""
        try:
            return orders_of(intent, self.state_dir.engine(intent.engine), self.environ, self.held_above_mb)
        except (KeyError, TypeError, ValueError):
            raise NodeError(f"the records of {intent.engine} are damaged: stop it, and apply again") from None

    def _await_end(self, process: ProcessId, seconds: float) -> None:
        deadline = self.clock.monotonic() + seconds
        while is_alive(process):
            if self.clock.monotonic() >= deadline:
                raise NodeError(f"the supervisor (pid {process.pid}) did not end within {seconds:g} s")
            self.clock.sleep(POLL_SECONDS)

    def _end_family(self, records: EngineRecords) -> StopResult:
        found = find_processes(records, boot_id())
        if found.family is None:
            return StopResult(StopOutcome.ALREADY_GONE)
        family = found.family
        grace = LEFTOVER_GRACE_SECONDS if found.leader is None else _grace(records)
        return stop_family(lambda: living_members(family), family.leader, grace=grace, clock=self.clock)


def orders_of(intent: Intent, folder: EngineDir, environ: Mapping[str, str], held_above_mb: int) -> Orders:
    """The intent with its secrets looked up, for a launch that has no id yet.

    Raises NodeError for a secret that cannot be read, and KeyError, TypeError or ValueError for a record that is none.
    """
    launch = intent.launch
    resolved = resolve_launch(launch, folder, environ)
    return Orders(
        engine=intent.engine,
        folder=folder.path,
        launch="",
        argv=resolved.argv,
        env=resolved.env,
        gpus=tuple(launch["gpus"]),
        target=Target(
            launch["host"],
            launch["port"],
            tuple(launch["served"]),
            resolved.bearer,
            launch["health_path"],
            launch["probe_timeout"],
        ),
        budgets=Budgets.from_bookkeeping(intent.bookkeeping),
        loading_grace=launch["loading_grace"],
        secrets=resolved.secrets,
        held_above_mb=held_above_mb,
    )


def live_supervisor(records: EngineRecords) -> ProcessId | None:
    """The process that last published a phase, while it lives."""
    phase = records.phase
    if phase is None or phase.boot_id != boot_id() or not is_alive(phase.supervisor):
        return None
    return phase.supervisor


def _was_killed(records: EngineRecords) -> bool:
    return records.phase is not None and records.phase.detail == str(StopOutcome.KILLED)


def _grace(records: EngineRecords) -> float:
    try:
        return float(records.spec["bookkeeping"]["stop_grace"]) if records.spec else DEFAULT_GRACE_SECONDS
    except (KeyError, TypeError, ValueError):
        return DEFAULT_GRACE_SECONDS
