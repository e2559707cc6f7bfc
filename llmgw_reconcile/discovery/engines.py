"""Turn records, the process table, sockets and probes into what really runs: the observed state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from llmgw_reconcile.discovery.holders import command_of
from llmgw_reconcile.discovery.processes import EngineProcesses, find_processes
from llmgw_reconcile.discovery.readiness import Question, ReadinessRound, Standing, run_rounds
from llmgw_reconcile.discovery.records import EngineRecords, last_exit_of, read_records
from llmgw_reconcile.errors import Diagnostic, NodeError, Severity
from llmgw_reconcile.host.proc import boot_id, command_line, descendants_of, identify, is_alive, read_stat
from llmgw_reconcile.host.secrets import resolve_secret
from llmgw_reconcile.host.sockets import Listener, owned_inodes, process_behind, tcp_listeners
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.observed import ForeignProcess, ObservedEngine, ObservedState, Phase, ProcessId
from llmgw_reconcile.model.spec import Document

VERSION_PATHS = {"vllm": "/version"}  # of the kinds that tell it


def observe(state_dir: StateDir, *, ports: Collection[int] = ()) -> ObservedState:
    """Every engine that a record names, and who else listens on the `ports` of interest.

    Nothing is signalled, written or locked. A folder of records that others may write to, or that cannot be read,
    makes the state unreadable (`readable` False): what it holds is not among the engines.
    """
    engines: list[ObservedEngine] = []
    problems: list[Diagnostic] = []
    try:
        state_dir.check()
        boot, names = boot_id(), state_dir.engine_names()
    except (NodeError, OSError) as error:
        return ObservedState(problems=(_unreadable(state_dir.root, error),), readable=False)
    for name in names:
        folder = state_dir.engine(name)
        try:
            engines.append(observe_engine(read_records(name, folder), boot))
        except (NodeError, OSError) as error:
            problems.append(_unreadable(folder.path, error))
    return ObservedState(tuple(engines), _strangers(engines, ports), tuple(problems), readable=not problems)


def _unreadable(path: str, error: Exception) -> Diagnostic:
    return Diagnostic(Severity.ERROR, "records-unreadable", path, str(error))


def observe_engine(records: EngineRecords, boot: str) -> ObservedEngine:
    """One engine, as its records and the kernel tell."""
    found = find_processes(records, boot)
    supervisor = _supervisor(records, boot)
    phase, detail = _phase(records, boot, found, supervisor)
    last_exit, tail = last_exit_of(records)
    launched = records.launch["document"] if records.launch else {}
    return ObservedEngine(
        engine=records.engine,
        phase=phase,
        live=found.leader,
        supervisor=supervisor,
        leftovers=found.leftovers,
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
        bookkeeping=records.spec["bookkeeping"] if records.spec else None,
        launch=records.launch["document"] if records.launch else None,
        secret_digests=records.spec.get("secret_digests") if records.spec else None,
        problems=records.problems,
        command=command_line(found.leader.pid) if found.leader is not None else (),
        load_seconds=records.phase.load_seconds if records.phase else None,
    )


def _supervisor(records: EngineRecords, boot: str) -> ProcessId | None:
    phase = records.phase
    if phase is None or phase.boot_id != boot or not is_alive(phase.supervisor):
        return None
    return phase.supervisor


def _phase(
    records: EngineRecords, boot: str, found: EngineProcesses, supervisor: ProcessId | None
) -> tuple[Phase, str]:
    said = records.phase
    if supervisor is not None and said is not None:
        if said.phase is Phase.READY and _is_suspended(found.leader):
            return Phase.DEGRADED, "suspended (T): it answers nothing until somebody sends it SIGCONT"
        return said.phase, said.detail
    if found.leader is not None:
        return Phase.ORPHANED, "it runs without a supervisor"
    if found.leftovers:
        pids = ", ".join(str(process.pid) for process in found.leftovers)
        return Phase.ORPHANED, f"its leader is gone, processes of it are left: {pids}"
    if records.is_held:
        return Phase.HELD, "stopped by hand"
    if said is None:
        return Phase.STOPPED, ""
    if said.phase.has_ended:
        return said.phase, said.detail
    return Phase.STOPPED, "it ended with the node's last boot" if said.boot_id != boot else "it ended unwatched"


def _is_suspended(leader: ProcessId | None) -> bool:
    stat = read_stat(leader.pid) if leader is not None else None
    return stat is not None and stat.state in "Tt"


def with_probes(observed: ObservedState, environ: Mapping[str, str]) -> ObservedState:
    """The same after one probe of each ready engine, side by side: one that does not answer well is degraded.

    An engine whose key cannot be read here is not asked: its refusal would say nothing about it.
    """
    ready = [engine for engine in observed.engines if engine.phase is Phase.READY and _can_be_asked(engine, environ)]
    if not ready:
        return observed
    listeners = tcp_listeners()
    rounds = [_round(engine, environ, listeners) for engine in ready]
    verdicts = dict(zip([engine.engine for engine in ready], run_rounds(rounds), strict=True))
    engines = []
    for engine in observed.engines:
        verdict = verdicts.get(engine.engine)
        if verdict is not None and verdict.standing is Standing.READY:
            engine = engine._replace(context=verdict.context, version=verdict.version)
        elif verdict is not None:
            engine = engine._replace(phase=Phase.DEGRADED, detail=verdict.detail)
        engines.append(engine)
    return observed._replace(engines=tuple(engines))


def _round(engine: ObservedEngine, environ: Mapping[str, str], listeners: tuple[Listener, ...]) -> ReadinessRound:
    assert engine.live is not None
    assert engine.launch is not None
    leader = engine.live.pid
    question = Question(
        engine.host or "127.0.0.1",
        engine.port or 0,
        engine.served,
        bearer_of(engine.launch, environ),
        engine.launch.get("health_path", "/health"),
        float(engine.launch.get("probe_timeout", 5.0)),
        # A third request only of those whose version matters to somebody.
        VERSION_PATHS.get(engine.launch.get("kind", ""), "")
        if (engine.bookkeeping or {}).get("engine_version")
        else "",
    )
    return ReadinessRound(question, lambda: (leader, *(p.pid for p in descendants_of(leader))), lambda: listeners)


def _can_be_asked(engine: ObservedEngine, environ: Mapping[str, str]) -> bool:
    if engine.live is None or engine.launch is None:
        return False
    return not engine.launch.get("api_key") or bearer_of(engine.launch, environ) is not None


def bearer_of(launch: Document, environ: Mapping[str, str]) -> str | None:
    """The key to ask an engine with; None where it has none, or where its key cannot be read."""
    if not (key := launch.get("api_key")):
        return None
    try:
        return resolve_secret(SecretRef(*next(iter(key.items()))), environ)
    except ValueError:
        return None


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
