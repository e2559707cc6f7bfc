"""Turn records, the process table, sockets and probes into what really runs: the observed state."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from llmgw_reconcile.discovery.holders import command_of
from llmgw_reconcile.discovery.readiness import Question, ReadinessRound, Standing, run_rounds
from llmgw_reconcile.discovery.records import EngineRecords, last_exit_of, read_records
from llmgw_reconcile.errors import Diagnostic, NodeError, Severity
from llmgw_reconcile.host.family import find_marked, living_members
from llmgw_reconcile.host.proc import boot_id, command_line, descendants_of, identify, is_alive, read_stat
from llmgw_reconcile.host.secrets import resolve_secret
from llmgw_reconcile.host.sockets import Listener, owned_inodes, process_behind, tcp_listeners
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.observed import ForeignProcess, ObservedEngine, ObservedState, Phase, ProcessId

FINAL_PHASES = (Phase.FAILED, Phase.HELD, Phase.STOPPED)


def observe(state_dir: StateDir, *, ports: Collection[int] = ()) -> ObservedState:
    """Every engine that a record names, and who else listens on the `ports` of interest.

    Nothing is signalled, written or locked. Records in a directory that others may write to make the state unreadable
    (`readable` False).
    """
    try:
        state_dir.check()
        boot = boot_id()
        engines = tuple(
            observe_engine(read_records(name, state_dir.engine(name)), boot) for name in state_dir.engine_names()
        )
    except (NodeError, OSError) as error:
        problem = Diagnostic(Severity.ERROR, "records-unreadable", state_dir.root, str(error))
        return ObservedState(problems=(problem,), readable=False)
    return ObservedState(engines=engines, listeners=_strangers(engines, ports))


def observe_engine(records: EngineRecords, boot: str) -> ObservedEngine:
    """One engine, as its records and the kernel tell."""
    leader, leftovers = _processes(records, boot)
    supervisor = _supervisor(records, boot)
    phase, detail = _phase(records, boot, leader, leftovers, supervisor)
    last_exit, tail = last_exit_of(records)
    launched = records.launch["document"] if records.launch else {}
    return ObservedEngine(
        engine=records.engine,
        phase=phase,
        live=leader,
        supervisor=supervisor,
        leftovers=leftovers,
        port=launched.get("port"),
        host=launched.get("host"),
        gpus=tuple(launched.get("gpus", ())),
        served=tuple(launched.get("served", ())),
        since=records.phase.since if records.phase else None,
        restarts=records.phase.restarts if records.phase else 0,
        last_exit=last_exit,
        log_tail=tail,
        detail=detail,
        spec=records.spec["document"] if records.spec else None,
        bookkeeping=records.spec.get("bookkeeping") if records.spec else None,
        launch=records.launch["document"] if records.launch else None,
        secret_digests=records.spec.get("secret_digests") if records.spec else None,
        problems=records.problems,
    )


def _processes(records: EngineRecords, boot: str) -> tuple[ProcessId | None, tuple[ProcessId, ...]]:
    """The live leader, or what outlived it. A pid file of another boot, or of another user, names nobody."""
    pid = records.pid
    if pid is not None and pid.boot_id == boot and pid.uid == os.geteuid():
        if is_alive(pid.leader):
            return pid.leader, ()
        members = living_members(pid.family)
        return None, tuple(stat.id for stat in members)
    started = records.phase is not None and records.phase.boot_id == boot and records.phase.phase not in FINAL_PHASES
    if records.launch_id and (started or records.pid_is_damaged):
        # A crash between the start and the pid file: the launch's mark in the environment finds the engine.
        return find_marked(records.launch_id), ()
    return None, ()


def _supervisor(records: EngineRecords, boot: str) -> ProcessId | None:
    phase = records.phase
    if phase is None or phase.boot_id != boot or not is_alive(phase.supervisor):
        return None
    return phase.supervisor


def _phase(
    records: EngineRecords,
    boot: str,
    leader: ProcessId | None,
    leftovers: Sequence[ProcessId],
    supervisor: ProcessId | None,
) -> tuple[Phase, str]:
    said = records.phase
    if supervisor is not None and said is not None:
        return said.phase, said.detail or _suspended(leader)
    if leader is not None:
        return Phase.ORPHANED, "it runs without a supervisor"
    if leftovers:
        pids = ", ".join(str(process.pid) for process in leftovers)
        return Phase.ORPHANED, f"its leader is gone, processes of it are left: {pids}"
    if said is None:
        return Phase.STOPPED, ""
    if said.phase in FINAL_PHASES:
        return said.phase, said.detail
    return Phase.STOPPED, "it ended with the node's last boot" if said.boot_id != boot else "it ended unwatched"


def _suspended(leader: ProcessId | None) -> str:
    stat = read_stat(leader.pid) if leader is not None else None
    return "suspended (T)" if stat is not None and stat.state in "Tt" else ""


def with_probes(observed: ObservedState, environ: Mapping[str, str]) -> ObservedState:
    """The same after one probe of each ready engine, side by side: one that does not answer well is degraded."""
    ready = [engine for engine in observed.engines if engine.phase is Phase.READY and engine.live is not None]
    if not ready:
        return observed
    listeners = tcp_listeners()
    rounds = [_round(engine, environ, listeners) for engine in ready]
    verdicts = dict(zip([engine.engine for engine in ready], run_rounds(rounds), strict=True))
    engines = []
    for engine in observed.engines:
        verdict = verdicts.get(engine.engine)
        if verdict is not None and verdict.standing is not Standing.READY:
            engine = engine._replace(phase=Phase.DEGRADED, detail=verdict.detail)
        engines.append(engine)
    return observed._replace(engines=tuple(engines))


def _round(engine: ObservedEngine, environ: Mapping[str, str], listeners: tuple[Listener, ...]) -> ReadinessRound:
    assert engine.live is not None
    assert engine.launch is not None
    leader = engine.live.pid
    bearer = None
    if key := engine.launch.get("api_key"):
        try:
            bearer = resolve_secret(SecretRef(*next(iter(key.items()))), environ)
        except ValueError:
            bearer = None  # asked without it: an engine that wants the key shows as degraded, and says 401
    question = Question(
        engine.host or "127.0.0.1",
        engine.port or 0,
        engine.served,
        bearer,
        engine.launch.get("health_path", "/health"),
        float(engine.launch.get("probe_timeout", 5.0)),
    )
    return ReadinessRound(question, lambda: (leader, *(p.pid for p in descendants_of(leader))), lambda: listeners)


def engine_finder(observed: ObservedState) -> Callable[[int], str | None]:
    """Tells the engine that a pid belongs to: by the session that a live leader of ours founded, or as a left-over."""
    leaders = {engine.live.pid: engine.engine for engine in observed.engines if engine.live is not None}
    others = {process: engine.engine for engine in observed.engines for process in engine.leftovers}

    def find(pid: int) -> str | None:
        stat = read_stat(pid)
        if stat is None:
            return None
        return leaders.get(stat.sid) or leaders.get(stat.pgid) or others.get(stat.id)

    return find


def _strangers(engines: Iterable[ObservedEngine], ports: Collection[int]) -> tuple[tuple[int, ForeignProcess], ...]:
    """Who listens on these ports and is none of ours."""
    listeners = [listener for listener in tcp_listeners() if listener.port in ports] if ports else []
    wanted = frozenset(listener.inode for listener in listeners)
    ours: frozenset[int] = frozenset()
    for engine in engines:
        pids = [process.pid for process in (engine.live, *engine.leftovers) if process is not None]
        pids += [process.pid for process in (descendants_of(engine.live.pid) if engine.live else ())]
        if wanted - ours and pids:
            ours |= owned_inodes(pids, wanted - ours)
    return tuple((listener.port, _stranger(listener)) for listener in listeners if listener.inode not in ours)


def _stranger(listener: Listener) -> ForeignProcess:
    pid = process_behind(listener.inode)
    holds = f"port {listener.port}"
    if pid is None or identify(pid) is None:
        return ForeignProcess(None, user_name(listener.uid), None, holds)
    return ForeignProcess(pid, user_name(listener.uid), command_of(command_line(pid)), holds)


def user_name(uid: int) -> str:
    """The account's name, else its number."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
