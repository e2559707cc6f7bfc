"""Carry out one thing for one engine: start, adopt, stop, update its bookkeeping, or remove its records."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.records import EngineRecords, read_records
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import Clock, utc_now
from llmgw_reconcile.host.family import living_members
from llmgw_reconcile.host.files import read_json, remove_tree, write_json
from llmgw_reconcile.host.proc import boot_id, is_alive, send_signal
from llmgw_reconcile.host.state_dir import EngineDir, StateDir
from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB
from llmgw_reconcile.model.observed import ObservedEngine, Phase, ProcessId
from llmgw_reconcile.supervise.intent import Intent, write_intent, write_spec
from llmgw_reconcile.supervise.resolve import copy_files, resolve_launch
from llmgw_reconcile.supervise.template import SupervisorTemplate
from llmgw_reconcile.supervisor.ladder import KILL_WAIT_SECONDS, StopOutcome, StopResult, stop_family
from llmgw_reconcile.supervisor.orders import Adoption, Budgets, Orders, Target

POLL_SECONDS = 0.02
LEFTOVER_GRACE_SECONDS = 1.0  # workers whose leader is gone serve nobody
SLACK_SECONDS = 10.0  # what a supervisor may need on top of its engine's grace


class Operations(NamedTuple):
    """What every operation needs of this node."""

    state_dir: StateDir
    environ: Mapping[str, str]
    template: SupervisorTemplate
    clock: Clock
    held_above_mb: int = DEFAULT_HELD_ABOVE_MB

    def start(self, intent: Intent) -> str:
        """Write the intent and start a supervisor with it; the launch's id. Raises NodeError; nothing runs then."""
        folder = self.state_dir.engine(intent.engine)
        folder.create()
        copy_files(intent.launch, folder)
        orders = self._orders(intent.engine, folder, intent.launch, intent.bookkeeping)
        launch = write_intent(intent, folder)
        self.template.send(orders._replace(launch=launch))
        return launch

    def adopt(self, engine: ObservedEngine) -> None:
        """Give a running engine that lost its supervisor a new one; no signal, no restart. Raises NodeError."""
        folder = self.state_dir.engine(engine.engine)
        records = read_records(engine.engine, folder)
        if engine.live is None or records.launch is None or records.spec is None:
            raise NodeError(f"cannot adopt {engine.engine}: its records are incomplete")
        orders = self._orders(engine.engine, folder, records.launch["document"], records.spec["bookkeeping"])
        pid = records.pid if records.pid is not None and records.pid.leader == engine.live else None
        adoption = Adoption(
            engine.live, pid.members if pid else (engine.live,), pid.was_ready if pid else False, engine.restarts
        )
        self.template.send(orders._replace(launch=records.launch_id, adoption=adoption))

    def update(self, intent: Intent, engine: ObservedEngine) -> None:
        """Write new bookkeeping, and tell the supervisor to read it. Raises NodeError."""
        folder = self.state_dir.engine(intent.engine)
        write_spec(intent, folder)
        if engine.supervisor is not None:
            send_signal(engine.supervisor, signal.SIGHUP)

    def ask_to_stop(self, name: str) -> None:
        """Ask its supervisor to stop it, and do not wait; `stop` sees to the end."""
        supervisor = _live_supervisor(read_records(name, self.state_dir.engine(name)))
        if supervisor is not None:
            send_signal(supervisor, signal.SIGTERM)

    def stop(self, name: str) -> StopResult:
        """Stop an engine and prove it: through its supervisor, or by ourselves where it has none. Raises NodeError."""
        folder = self.state_dir.engine(name)
        records = read_records(name, folder)
        supervisor = _live_supervisor(records)
        outcome = StopOutcome.ALREADY_GONE
        if supervisor is not None:
            send_signal(supervisor, signal.SIGTERM)
            self._await_end(supervisor, _grace(records) + KILL_WAIT_SECONDS + SLACK_SECONDS)
            after = read_records(name, folder)
            outcome = StopOutcome.KILLED if _was_killed(after) else StopOutcome.TERMINATED
            records = after._replace(pid=after.pid or records.pid)
        result = self._end_family(records)
        return StopResult(outcome) if result.outcome is StopOutcome.ALREADY_GONE else result

    def end_leftovers(self, name: str) -> StopResult:
        """End what outlived a leader that is gone. Raises NodeError."""
        return self._end_family(read_records(name, self.state_dir.engine(name)))

    def hold(self, name: str) -> None:
        """Note that a person stopped it: only a restart or an apply starts it again. Raises NodeError."""
        path = self.state_dir.engine(name).file("phase.json")
        try:
            found = read_json(path)
        except ValueError:
            return
        if found is not None:
            write_json(path, found | {"phase": str(Phase.HELD), "since": utc_now(), "detail": "stopped by hand"})

    def forget(self, name: str) -> None:
        """Remove the records of an engine that is proven stopped. Raises NodeError."""
        folder = self.state_dir.engine(name)
        if not folder.tmp.startswith(folder.path):
            remove_tree(folder.tmp)
        remove_tree(folder.path)

    def _orders(self, engine: str, folder: EngineDir, launch: Mapping[str, object], bookkeeping: object) -> Orders:
        document = dict(launch)
        resolved = resolve_launch(document, folder, self.environ)
        assert isinstance(bookkeeping, dict)
        return Orders(
            engine=engine,
            folder=folder.path,
            launch="",
            argv=resolved.argv,
            env=resolved.env,
            gpus=tuple(document["gpus"]),  # type: ignore[arg-type]
            target=Target(
                str(document["host"]),
                int(str(document["port"])),
                tuple(document["served"]),  # type: ignore[arg-type]
                resolved.bearer,
                str(document["health_path"]),
                float(str(document["probe_timeout"])),
            ),
            budgets=Budgets.from_bookkeeping(bookkeeping),
            loading_grace=float(str(document["loading_grace"])),
            secrets=resolved.secrets,
            held_above_mb=self.held_above_mb,
        )

    def _await_end(self, process: ProcessId, seconds: float) -> None:
        deadline = self.clock.monotonic() + seconds
        while is_alive(process):
            if self.clock.monotonic() >= deadline:
                raise NodeError(f"the supervisor (pid {process.pid}) did not end within {seconds:g} s")
            self.clock.sleep(POLL_SECONDS)

    def _end_family(self, records: EngineRecords) -> StopResult:
        pid = records.pid
        if pid is None or pid.boot_id != boot_id():
            return StopResult(StopOutcome.ALREADY_GONE)
        grace = _grace(records) if is_alive(pid.leader) else LEFTOVER_GRACE_SECONDS
        return stop_family(lambda: living_members(pid.family), pid.leader, grace=grace, clock=self.clock)


def _live_supervisor(records: EngineRecords) -> ProcessId | None:
    phase = records.phase
    if phase is None or phase.boot_id != boot_id() or not is_alive(phase.supervisor):
        return None
    return phase.supervisor


def _was_killed(records: EngineRecords) -> bool:
    return records.phase is not None and records.phase.detail == str(StopOutcome.KILLED)


def _grace(records: EngineRecords) -> float:
    try:
        return float(records.spec["bookkeeping"]["stop_grace"]) if records.spec else 60.0
    except (KeyError, TypeError, ValueError):
        return 60.0
