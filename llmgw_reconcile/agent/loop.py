"""Keep one node what its state says: look, apply what differs, sleep until something happens, and again.

Level-triggered: what wakes it only says when to look, never what to do; a signal lost costs no more than one interval.
It ends between two steps, and what it started lives on under its supervisors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from llmgw_reconcile.agent.bell import Bell, EndAskedError
from llmgw_reconcile.agent.choice import Choice
from llmgw_reconcile.agent.engine_watch import Change
from llmgw_reconcile.agent.liveness import Health, Sign
from llmgw_reconcile.agent.log import AgentLog
from llmgw_reconcile.agent.source import Source
from llmgw_reconcile.errors import BusyError, NodeError, RefusedError
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.model.observed import ProcessId
from llmgw_reconcile.model.spec import engines_of
from llmgw_reconcile.plan.actions import Action
from llmgw_reconcile.workflow.applying import Applied, Supervision, Wish
from llmgw_reconcile.workflow.planning import Planned

LOOK_SECONDS = 1.0  # between two looks at what engines' supervisors publish
BUSY_SECONDS = 2.0  # until the next attempt, while another command holds a lock
TROUBLE_SECONDS = 30.0  # until the next attempt, after something of the node failed
NEVER = float("inf")
DEAD = "dead"  # the backoff of engines that are replaced since they do not answer
ID_LENGTH = 19  # of digests and commits, for people: "sha256:" and twelve characters


class Engines(Protocol):
    """What is watched of engines: agent/engine_watch.py."""

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable as soon as a supervisor has ended."""

    def look(self) -> tuple[Change, ...]:
        """What changed since the last look."""


class Pulse(Protocol):
    """Who is asked whether it lives: agent/liveness.py."""

    look_at: float

    def watch(self, allowed: Mapping[str, int]) -> None:
        """Engine -> misses in a row after which it is dead."""

    def look(self) -> tuple[Sign, ...]:
        """One round."""


class Work(Protocol):
    """What is done to the node: workflow/applying.py."""

    def apply(self, wish: Wish, by: Supervision) -> Applied:
        """One apply. Raises BusyError, RefusedError and NodeError; nothing was changed then."""

    def replace_dead(self, engine: str, leader: ProcessId, why: str, by: Supervision) -> Applied:
        """Start an engine afresh if it is that process and does not answer. Raises likewise."""


class Parts(NamedTuple):
    """What the loop is made of."""

    source: Source
    engines: Engines
    pulse: Pulse
    work: Work
    choice: Choice
    bell: Bell
    log: AgentLog
    clock: Clock


class Agent:
    """The loop; `run` returns when SIGTERM or SIGINT came."""

    def __init__(self, parts: Parts, interval: float) -> None:
        self._parts, self._interval = parts, interval
        self._good: Wish | None = None
        self._trying: dict[str, str | None] = {}  # the version under way; empty for the last good one
        self._accepted: dict[str, str | None] = {}
        self._round_at = self._look_at = parts.clock.monotonic()
        self._has_acted = False

    def run(self) -> None:
        """Until the end is asked for; engines serve on."""
        self._parts.log.say("agent_started", f"reconciling every {self._interval:g} s and on every change")
        try:
            self._parts.bell.looking()
            for change in self._parts.engines.look():
                if change.phase is not None:
                    self._parts.log.know(change.engine, change.phase)
            while True:
                self._step()
        except EndAskedError:
            self._parts.bell.acting()
            self._parts.log.say("agent_ended", "ends as asked; engines serve on under their supervisors")

    # -- when

    def _step(self) -> None:
        """Look at what is due, reconcile if there is reason to, sleep."""
        clock, source, bell = self._parts.clock, self._parts.source, self._parts.bell
        now = clock.monotonic()
        if bell.reconcile_asked:
            bell.reconcile_asked = False
            self._parts.log.say("reconcile_asked", "reconciles as asked")
            source.hurry()
            self._round_at = now
        if (now >= source.look_at or now >= self._round_at) and source.has_changed():
            self._round_at = now
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._see_engines()
        if now >= self._parts.pulse.look_at:
            self._feel_pulses()
        if clock.monotonic() >= self._round_at and not source.is_settling:
            self._reconcile()
        bell.looking()
        round_at = NEVER if source.is_settling else self._round_at
        bell.wait(min(self._look_at, source.look_at, self._parts.pulse.look_at, round_at), self._parts.engines.fds)
        bell.looking()

    def _soon(self, seconds: float) -> None:
        """The next round comes no later than that."""
        self._round_at = min(self._round_at, self._parts.clock.monotonic() + seconds)

    def _see_engines(self) -> None:
        for change in self._parts.engines.look():
            if change.phase is None:
                continue
            self._parts.log.phase(change.engine, change.phase, change.detail)
            if change.needs_a_look:
                self._soon(0)

    # -- what

    def _reconcile(self) -> None:
        """One round: the state as it is wanted now, or the last good one where that cannot be had."""
        self._round_at = self._parts.clock.monotonic() + self._interval
        log = self._parts.log
        try:
            self._parts.bell.looking()
            if not self._hold_to_wanted():
                self._hold_to_last_good()
        except BusyError as error:
            log.say_once(("busy",), "busy", f"{error}; tries again")
            self._soon(BUSY_SECONDS)
        except NodeError as error:
            log.say_once(("trouble",), "trouble", f"{error}; tries again")
            self._soon(TROUBLE_SECONDS)
        else:
            log.settle("busy")
            log.settle("trouble")
        self._soon(max(0.0, self._parts.choice.next_at - self._parts.clock.monotonic()))

    def _hold_to_wanted(self) -> bool:
        """Read the state and hold the node to it; False when it is refused, which is said once."""
        source = self._parts.source
        try:
            wish = source.read()
        except (RefusedError, NodeError) as error:
            self._say_refused(error)
            return False
        self._trying = source.version(wish)
        try:
            applied = self._parts.work.apply(wish, self)
        except RefusedError as error:
            source.refuse(wish)
            self._say_refused(error)
            return False
        finally:
            self._trying = {}
        self._good = wish
        self._learn(wish, applied)
        source.accept(wish)
        return True

    def _say_refused(self, error: Exception) -> None:
        stays = "nothing is changed" if self._good is None else "the last good state stays in force"
        self._parts.log.say_once(("state",), "state_refused", f"{error}\n{stays}")

    def _hold_to_last_good(self) -> None:
        self._good = self._good or self._parts.source.kept()
        if self._good is None:
            return
        try:
            applied = self._parts.work.apply(self._good, self)
        except RefusedError as error:
            self._parts.log.say_once(("good",), "state_refused", f"the last good state is refused now: {error}")
        else:
            self._parts.log.settle("good")
            self._learn(self._good, applied)

    def _learn(self, wish: Wish, applied: Applied) -> None:
        allowed = {spec.engine: m.liveness.failures for m in wish.state.models for spec in engines_of(m)}
        self._parts.pulse.watch(allowed)
        self._parts.choice.account(applied)

    def _say_accepted(self) -> None:
        """Once for each version, and again after something else was refused."""
        if not self._trying:
            return
        was_refused = self._parts.log.settle("state")
        if self._trying == self._accepted and not was_refused:
            return
        self._accepted = self._trying
        words = [self._trying["file"] or "", *(f"{name} {value}" for name, value in self._named(self._trying))]
        self._parts.log.say("state_accepted", f"the node is held to {', '.join(words)}", **self._trying)

    def _named(self, version: dict[str, str | None]) -> list[tuple[str, str]]:
        """For people; ids are cut to what tells them apart."""
        return [(name, value[:ID_LENGTH]) for name, value in version.items() if value and name != "file"]

    # -- the pulse

    def _feel_pulses(self) -> None:
        log = self._parts.log
        self._parts.bell.looking()
        for sign in self._parts.pulse.look():
            if sign.health is Health.SERVING:
                if log.settle("pulse", sign.engine):
                    log.say("pulse", f"{sign.engine}: answers again", engine=sign.engine)
                continue
            words = f"{sign.engine}: degraded: {sign.detail}"
            log.say_once(("pulse", sign.engine), "pulse", f"{words} ({sign.health})", engine=sign.engine)
            if sign.is_dead:
                self._replace(sign)

    def _replace(self, sign: Sign) -> None:
        """A dead engine gets a new run, no more often than its backoff allows."""
        clock, backoff, log = self._parts.clock, self._parts.choice.backoff, self._parts.log
        if clock.monotonic() < backoff.not_before(sign.engine, DEAD):
            return
        why = f"no sign of life in {sign.misses} rounds of probes: {sign.detail}"
        try:
            applied = self._parts.work.replace_dead(sign.engine, sign.leader, why, self)
        except (BusyError, NodeError, RefusedError) as error:
            log.say_once(("pulse", sign.engine), "pulse", f"{sign.engine}: {why}; cannot replace it: {error}")
            return
        if applied.outcomes:
            backoff.note(sign.engine, DEAD, clock.monotonic())
        log.settle("pulse", sign.engine)

    # -- asked by an apply

    @property
    def reporter(self) -> AgentLog:
        """Who is told."""
        return self._parts.log

    def say(self, line: str) -> None:
        """A line about the work."""
        self._parts.log.say("work", line)

    def choose(self, planned: Planned) -> tuple[Action, ...]:
        """What of a plan is carried out. The guards let it pass: its state is good."""
        self._say_accepted()
        return self._parts.choice.choose(planned)

    def begin(self) -> None:
        """From now on things are changed."""
        self._has_acted = False
        self._parts.log.rolling.clear()
        self._parts.bell.acting()

    def acted(self) -> None:
        """Nothing is left to do but to wait."""
        self._has_acted = True

    def is_interrupted(self) -> bool:
        """Whether it is enough: starts are not waited for here, their phases are seen by and by. A replacement is."""
        return self._parts.bell.end_asked or (self._has_acted and not self._parts.log.rolling)
