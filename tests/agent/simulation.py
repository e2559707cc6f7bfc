"""A node that exists in memory, with a clock that goes as fast as it is asked to, and all that can happen to it.

The loop, its choices, its file and the decisions of plan and guards are the real ones; engines, supervisors, GPUs and
other people are made up here. Each run of an engine has a number: one that ends without a reason is a failed test.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from llmgw_reconcile.agent.attempts import Attempts
from llmgw_reconcile.agent.bell import EndAskedError
from llmgw_reconcile.agent.choice import Choice
from llmgw_reconcile.agent.engine_watch import Change
from llmgw_reconcile.agent.liveness import PROBE_SECONDS, Health, Sign
from llmgw_reconcile.agent.log import AgentLog
from llmgw_reconcile.agent.loop import Agent, Parts
from llmgw_reconcile.agent.source import FileSource
from llmgw_reconcile.errors import BusyError, Diagnostic, NodeError, Severity
from llmgw_reconcile.host.files import write_atomic, write_json
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Launch, Placement, launch_document
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase, ProcessId
from llmgw_reconcile.model.spec import engines_of
from llmgw_reconcile.plan.actions import ActionKind
from llmgw_reconcile.plan.reconcile import Wanted, reconcile
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.supervisor.restarts import DELAYS
from llmgw_reconcile.workflow.applying import Applied, refuse_guarded
from llmgw_reconcile.workflow.planning import Planned, World, build_plan
from tests.fakes.clock import FakeClock
from tests.plan.builders import gpu

STEP = 20.0  # seconds between two things that happen
LOAD_SECONDS, FAIL_SECONDS = 40.0, 5.0
MAX_RESTARTS, CALM_SECONDS = 5, 600.0


class KilledError(BaseException):
    """SIGKILL came to the agent."""


class Spec(NamedTuple):
    """What an engine runs as."""

    document: dict
    bookkeeping: dict
    gpus: tuple
    port: int

    @property
    def is_bad(self) -> bool:
        """It ends before it is ready, each time."""
        return "--bad" in self.document.get("args", ())


class Engine:
    """One engine with its supervisor."""

    def __init__(self, name: str, spec: Spec, run: int, now: float) -> None:
        self.name, self.spec = name, spec
        self.restarts, self.held = 0, False
        self.begin(run, now)

    def begin(self, run: int, now: float) -> None:
        self.run, self.leader, self.supervisor = run, True, True
        self.phase, self.hung = Phase.STARTING, False
        self.next_at = now + (FAIL_SECONDS if self.spec.is_bad else LOAD_SECONDS)
        self.ready_at = None

    def end(self, phase: Phase) -> None:
        self.leader = self.supervisor = False
        self.phase, self.hung, self.next_at = phase, False, None

    def observed(self) -> ObservedEngine:
        phase = Phase.ORPHANED if self.leader and not self.supervisor else self.phase
        phase = Phase.DEGRADED if self.hung and phase is Phase.READY else phase
        return ObservedEngine(
            engine=self.name,
            phase=Phase.HELD if self.held else phase,
            live=ProcessId(self.run, 1) if self.leader else None,
            supervisor=ProcessId(self.run, 2) if self.supervisor else None,
            port=self.spec.port,
            gpus=self.spec.gpus,
            spec=self.spec.document,
            bookkeeping=self.spec.bookkeeping,
            secret_digests={},
        )


class Node:
    """The world: engines, cards, a disk, a lock, a file, and what happens at random."""

    def __init__(self, folder, seed: int) -> None:
        self.clock, self.random = FakeClock(), Random(seed)
        self.file = folder / "node.yaml"
        self.state_dir = StateDir(str(folder / "state"))
        self.state_dir.create()
        self.engines: dict[str, Engine] = {}
        self.lost_cards: set[int] = set()
        self.disk_is_full = self.is_busy = False
        self.runs = self.bad_runs = 0
        self.may_kill = False
        self.blow: Callable[[], None] = lambda: None
        self.blow_at = float("inf")  # when something happens next
        self.touched: list[str] = []  # engines that were ended though they should have served
        self.happened: dict[str, int] = {}

    # -- time
    def advance(self, until: float) -> None:
        """Let time pass, and what must happen in it."""
        while True:
            due = [engine for engine in self.engines.values() if engine.next_at is not None]
            engine = min(due, key=lambda engine: engine.next_at, default=None)
            if self.blow_at <= until and (engine is None or self.blow_at <= engine.next_at):
                self.clock.now = max(self.clock.now, self.blow_at)
                self.blow_at += STEP
                self.blow()
            elif engine is not None and engine.next_at <= until:
                self.clock.now = max(self.clock.now, engine.next_at)
                self._go_on(engine)
            else:
                break
        self.clock.now = max(self.clock.now, until)

    def _go_on(self, engine: Engine) -> None:
        now = self.clock.now
        if engine.phase is Phase.STARTING and engine.spec.is_bad:
            engine.end(Phase.FAILED)
        elif engine.phase is Phase.STARTING:
            engine.phase, engine.ready_at, engine.next_at = Phase.READY, now, None
        elif engine.phase is Phase.BACKOFF:
            self.runs += 1
            engine.begin(self.runs, now)

    def crash(self, engine: Engine) -> None:
        """Its processes end by themselves; a supervisor starts it again, up to a bound."""
        if not engine.supervisor:
            engine.end(Phase.STOPPED)
            return
        if engine.phase is not Phase.READY:
            engine.end(Phase.FAILED)
            return
        calm = engine.ready_at is not None and self.clock.now - engine.ready_at >= CALM_SECONDS
        engine.restarts = 0 if calm else engine.restarts
        if engine.restarts >= MAX_RESTARTS:
            engine.end(Phase.FAILED)
            return
        engine.leader, engine.phase, engine.hung = False, Phase.BACKOFF, False
        engine.next_at = self.clock.now + DELAYS[engine.restarts]
        engine.restarts += 1

    # -- what engines do at an order
    def start(self, name: str, spec: Spec) -> None:
        self.runs += 1
        self.bad_runs += spec.is_bad
        self.engines[name] = Engine(name, spec, self.runs, self.clock.now)

    def free_cards(self) -> list[int]:
        held = {uuid for engine in self.engines.values() if engine.leader for uuid in engine.spec.gpus}
        return [index for index in range(8) if index not in self.lost_cards and f"GPU-{index}" not in held]

    def observed(self) -> ObservedState:
        return ObservedState(tuple(self.engines[name].observed() for name in sorted(self.engines)))

    # -- the file
    def write(self, text: str) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.file)

    def write_models(self, models: list[dict]) -> None:
        self.write(json.dumps({"version": 1, "models": models}))


class FakeBell:
    """Sleeps by letting the node's time pass; the end comes when the plan of the test says so."""

    def __init__(self, node: Node, until: float) -> None:
        self.end_asked = self.reconcile_asked = False
        self._node, self._until = node, until

    def wait(self, deadline: float, fds: tuple[int, ...] = ()) -> None:
        self._node.advance(min(max(deadline, self._node.clock.now + 0.001), self._until))
        if self._node.clock.now >= self._until:
            self.end_asked = True

    def looking(self) -> None:
        if self.end_asked:
            raise EndAskedError

    def acting(self) -> None:
        pass


class FakeEngines:
    """Tells each change of a phase, as the records of supervisors would."""

    fds = ()

    def __init__(self, node: Node) -> None:
        self._node, self._seen = node, {}

    def look(self) -> tuple[Change, ...]:
        now = {name: (e.run, self._phase(e), e.supervisor) for name, e in self._node.engines.items()}
        gone = [Change(name, None) for name in self._seen if name not in now]
        changed = [
            Change(name, seen[1], needs_a_look=not seen[2])
            for name, seen in now.items()
            if self._seen.get(name) != seen
        ]
        self._seen = now
        return (*gone, *changed)

    def _phase(self, engine: Engine) -> Phase:
        return Phase.ORPHANED if engine.leader and not engine.supervisor else engine.phase


class FakePulse:
    """Counts rounds that a hung engine misses."""

    def __init__(self, node: Node) -> None:
        self._node, self._allowed, self._misses = node, {}, {}
        self.look_at = float("inf")

    def watch(self, allowed) -> None:
        self._allowed = {engine: misses for engine, misses in allowed.items() if misses > 0}
        if self._allowed and self.look_at == float("inf"):
            self.look_at = self._node.clock.now + PROBE_SECONDS

    def look(self) -> tuple[Sign, ...]:
        self.look_at = self._node.clock.now + PROBE_SECONDS
        return tuple(self._sign(name) for name in self._allowed if self._is_ready(name))

    def _is_ready(self, name: str) -> bool:
        return name in self._node.engines and self._node.engines[name].phase is Phase.READY

    def _sign(self, name: str) -> Sign:
        engine = self._node.engines[name]
        misses = self._misses.get((name, engine.run), 0) + 1 if engine.hung else 0
        self._misses = {key: count for key, count in self._misses.items() if key[0] != name} | {
            (name, engine.run): misses
        }
        health = Health.SILENT if engine.hung else Health.SERVING
        leader = ProcessId(engine.run, 1)
        return Sign(name, leader, health, misses, is_dead=misses >= self._allowed[name], detail="no answer")


class FakeWork:
    """Plans with the real decisions and carries out on the made-up node, in steps between which it can be killed."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def apply(self, wish, by) -> Applied:
        planned = self._plan(wish)
        refuse_guarded(planned, wish.state, ["gpu-07"])
        actions = by.choose(planned)
        if not actions:
            return Applied(planned, ())
        if self._node.is_busy:
            raise BusyError("busy: llmgw apply of somebody")
        if self._node.disk_is_full:
            raise NodeError("cannot write: No space left on device")
        by.begin()
        self._record(wish)
        return Applied(planned, self._carry_out(planned, actions, by))

    def replace_dead(self, name, leader, why, by) -> Applied:
        node, engine = self._node, self._node.engines[name]
        if node.is_busy:
            raise BusyError("busy: llmgw apply of somebody")
        if not engine.hung or engine.run != leader.pid:
            return Applied(
                Planned(build_plan("gpu-07", "", (), ()), World(Inventory("gpu-07", "none"), node.observed()), ()), ()
            )
        by.begin()
        node.happened["replaced"] = node.happened.get("replaced", 0) + 1
        node.start(name, engine.spec)
        return Applied(None, (Outcome(name, ActionKind.REPLACE, ok=True, summary="ready"),))

    def _record(self, wish) -> None:
        folder = f"{self._node.state_dir.root}/applied"
        write_atomic(f"{folder}/state.yaml", wish.data)
        write_json(f"{folder}/applied.json", {"file": wish.state.source, "digest": wish.state.digest})

    def _plan(self, wish) -> Planned:
        node = self._node
        observed = node.observed()
        free = node.free_cards()
        wanted = []
        for spec in (spec for model in wish.state.models for spec in engines_of(model)):
            seen = node.engines.get(spec.engine)
            if seen is not None and seen.leader:
                cards = tuple(gpu(int(uuid.removeprefix("GPU-"))) for uuid in seen.spec.gpus)
            else:
                cards = tuple(gpu(free.pop(0)) for _ in range(min(1, len(free))))
            problem = () if cards else (Diagnostic(Severity.ERROR, "no-gpu", spec.engine, "no GPU is free"),)
            launch = Launch(
                engine=spec.engine,
                kind=spec.model.engine,
                argv=("vllm",),
                env=(),
                gpus=tuple(card.uuid for card in cards),
                host="127.0.0.1",
                port=spec.port,
                served=(spec.model.name,),
            )
            placement = Placement(spec, cards, spec.port, "/opt/vllm") if cards else None
            wanted.append(Wanted(spec, placement, launch if cards else None, problem, {}))
        actions = reconcile(wanted, observed, tuple(map(gpu, range(8))))
        world = World(Inventory("gpu-07", "none"), observed)
        return Planned(build_plan("gpu-07", wish.state.source, actions, ()), world, tuple(wanted))

    def _carry_out(self, planned, actions, by) -> tuple[Outcome, ...]:
        wanted = {want.spec.engine: want for want in planned.wanted}
        outcomes, halted = {}, False
        for action in sorted(actions, key=lambda a: list(ActionKind).index(a.kind)):
            if by.is_interrupted() or (halted and action.kind is ActionKind.REPLACE):
                continue
            by.reporter.action_started(action)
            self._may_be_killed()
            outcomes[action.engine] = self._do(action, wanted.get(action.engine), by)
            halted |= action.kind is ActionKind.REPLACE and not outcomes[action.engine].ok
            done = outcomes[action.engine]
            by.reporter.action_finished(action.engine, action.kind, ok=done.ok, summary=done.summary, seconds=0.0)
        by.acted()
        return tuple(
            outcomes.get(a.engine) or Outcome(a.engine, a.kind, ok=False, summary="", tried=False) for a in actions
        )

    def _do(self, action, want, by) -> Outcome:
        node, engine = self._node, self._node.engines.get(action.engine)
        self._check_reason(action, want, engine)
        if action.kind is ActionKind.STOP:
            del node.engines[action.engine]
        elif action.kind is ActionKind.ADOPT:
            engine.supervisor = True
        elif action.kind is ActionKind.UPDATE:
            engine.spec = engine.spec._replace(bookkeeping=want.spec.bookkeeping)
        elif action.kind is ActionKind.START:
            node.start(action.engine, self._spec(want))
        else:
            return self._replace(action, want, by)
        return Outcome(action.engine, action.kind, ok=True, summary="done")

    def _replace(self, action, want, by) -> Outcome:
        node, name = self._node, action.engine
        previous = node.engines[name].spec
        node.engines[name].end(Phase.STOPPED)
        self._may_be_killed()
        node.start(name, self._spec(want))
        while node.engines[name].phase is Phase.STARTING and not by.is_interrupted():
            node.advance(node.clock.now + 1)
            self._may_be_killed()
        if node.engines[name].phase is not Phase.FAILED:
            return Outcome(name, action.kind, ok=True, summary="ready")
        by.reporter.comes_back(name, "exit code 2")
        node.start(name, previous)
        return Outcome(name, action.kind, ok=False, summary="exit code 2; rolled back")

    def _spec(self, want) -> Spec:
        document = launch_document(want.launch)
        return Spec(want.spec.document, want.spec.bookkeeping, tuple(document["gpus"]), want.spec.port)

    def _check_reason(self, action, want, engine) -> None:
        """An engine that lives may be ended only if the state does not ask for just what it runs as."""
        ends = action.kind in (ActionKind.STOP, ActionKind.REPLACE, ActionKind.START)
        if ends and engine is not None and engine.leader and want is not None and _runs(engine, want):
            self._node.touched.append(f"{action.kind} {action.engine}")

    def _may_be_killed(self) -> None:
        if self._node.may_kill and self._node.random.random() < 0.1:
            raise KilledError


def _runs(engine, want) -> bool:
    return engine.spec.document == want.spec.document


class Day:
    """Runs the agent on a node, again and again, and keeps what it says."""

    def __init__(self, node: Node) -> None:
        self.node, self.kills = node, 0
        self.lines: deque[str] = deque(maxlen=1000)

    def run_until(self, until: float) -> None:
        """Let it run; whenever it is killed, a new one takes over."""
        while self.node.clock.now < until:
            try:
                self._agent(until).run()
            except KilledError:
                self.kills += 1
                self.node.advance(min(until, self.node.clock.now + 5))

    def _agent(self, until: float) -> Agent:
        node = self.node
        log = AgentLog(self.lines.append, as_json=False, now=lambda: f"{node.clock.now:.0f}")
        choice = Choice(Attempts(node.state_dir), log, node.clock, mark=lambda path: path)
        source = FileSource(str(node.file), node.state_dir, node.clock)
        parts = Parts(
            source, FakeEngines(node), FakePulse(node), FakeWork(node), choice, FakeBell(node, until), log, node.clock
        )
        return Agent(parts, 60.0)
