"""Apply a state without a person: lock, plan, ask the guards, record, carry out; and likewise start one engine afresh.

It stands for no consent: a plan that a guard speaks against is refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from llmgw_reconcile.discovery.engines import observe_engine
from llmgw_reconcile.discovery.records import read_records
from llmgw_reconcile.errors import BusyError, Diagnostic, NodeError, RefusedError
from llmgw_reconcile.host.checkout import commit_of
from llmgw_reconcile.host.files import read_json
from llmgw_reconcile.host.proc import boot_id
from llmgw_reconcile.host.secrets import make_digest_key
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.model.observed import ObservedEngine, Phase, ProcessId
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.guards import guard_refusals
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.workflow.applied import last_settings, record_applied, record_result
from llmgw_reconcile.workflow.asking import ask_engines
from llmgw_reconcile.workflow.carry_out import Limits
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.journal import Journal, Occasion, state_occasion
from llmgw_reconcile.workflow.locking import Locks
from llmgw_reconcile.workflow.planning import Planned, make_plan
from llmgw_reconcile.workflow.report import Reporter
from llmgw_reconcile.workflow.restarting import plan_restart
from llmgw_reconcile.workflow.session import carry_out_actions

PURPOSE = "llmgw agent run"


class Wish(NamedTuple):
    """What is to be applied: a state, and the bytes of its file."""

    state: DesiredState
    data: bytes


class Applied(NamedTuple):
    """The whole plan, and how those of its actions ended that were chosen."""

    planned: Planned
    outcomes: tuple[Outcome, ...]


class GuardedError(RefusedError):
    """Guards speak against the plan."""

    def __init__(self, refusals: Sequence[Diagnostic]) -> None:
        super().__init__("; ".join(f"{one.where}: {one.message} ({one.hint})" for one in refusals))


class Supervision(Protocol):
    """Who applies: chooses, is told, and says when it is enough."""

    @property
    def reporter(self) -> Reporter:
        """Who is told."""

    def say(self, line: str) -> None:
        """A line about the work."""

    def choose(self, planned: Planned) -> tuple[Action, ...]:
        """Which actions of a plan that the guards let pass are carried out. May be asked again, for a newer plan."""

    def begin(self) -> None:
        """From now on things are changed."""

    def acted(self) -> None:
        """Nothing is left to do but to wait."""

    def is_interrupted(self) -> bool:
        """Whether nothing further is to be begun, and nobody waits any more. Asked often."""


def apply_state(host: Host, wish: Wish, by: Supervision) -> Applied:
    """One apply. Raises BusyError, RefusedError and NodeError; nothing was changed then.

    The lock is taken only when there is something to do, so that a loop that rests is in nobody's way. A state is
    recorded as applied when it is not yet, or when something is done for it.
    """
    host.state_dir.create()
    make_digest_key(host.state_dir.digest_key)
    planned, actions = _choose(host, wish, by, make_plan(host, wish.state, for_apply=True))
    if not actions and is_recorded(host, wish):
        return Applied(planned, ())
    with Locks(host.state_dir, PURPOSE) as locks:
        locks.take_node()
        planned, actions = _choose(host, wish, by, _plan(host, wish, by))
        by.begin()
        _take_engines(locks, host, planned, actions)
        record_applied(host, wish.state, wish.data, planned.plan.digest)
        held_above_mb = wish.state.node.held_above_mb
        occasion = state_occasion(PURPOSE, wish.state, planned.plan.digest)
        outcomes = _carry_out(host, planned, actions, by, locks, held_above_mb, Limits(), occasion, whole=True)
        left = [a for a in planned.plan.actions if a.kind is not ActionKind.KEEP and a not in actions]
        record_result(host, by.say, ok=not left and all(outcome.ok for outcome in outcomes))
        return Applied(planned, outcomes)


def replace_dead(host: Host, engine: str, leader: ProcessId, why: str, by: Supervision) -> Applied:
    """Start an engine afresh from its recorded spec, if it still is that process and still does not answer.

    Raises BusyError, RefusedError and NodeError; nothing was changed then.
    """
    with Locks(host.state_dir, PURPOSE) as locks:
        locks.take_node()
        settings = last_settings(host)
        planned = plan_restart(host, [engine], settings)
        seen = planned.world.observed.find(engine)
        if seen is None or seen.live != leader or seen.phase is not Phase.DEGRADED:
            return Applied(planned, ())
        actions = tuple(action._replace(reason=why) for action in planned.plan.actions)
        if any(action.kind is not ActionKind.REPLACE for action in actions):
            raise NodeError("; ".join(one.message for action in actions for one in action.diagnostics))
        refuse_guarded(planned, None, host.names)
        by.begin()
        _take_engines(locks, host, planned, actions)
        occasion = Occasion(PURPOSE, plan=planned.plan.digest, reason=why)
        limits = Limits(drain=0.0)  # who does not answer finishes nothing
        memory = settings.held_above_mb
        return Applied(planned, _carry_out(host, planned, actions, by, locks, memory, limits, occasion, whole=False))


def refuse_guarded(planned: Planned, state: DesiredState | None, names: Sequence[str]) -> None:
    """Raises GuardedError when a guard speaks against the plan. `state` None: the plan is not that of a state file."""
    refusals = guard_refusals(
        planned.plan,
        planned.world.observed,
        state_names_node=None if state is None else state.node.name,
        node_names=names,
        state_is_empty=state is not None and not state.models,
        max_stops=None,
        allow_empty=False,
        reviewed=False,
    )
    if refusals:
        raise GuardedError(refusals)


def is_recorded(host: Host, wish: Wish) -> bool:
    """Whether this very file, of this commit, is what was applied last."""
    try:
        found = read_json(os.path.join(host.state_dir.root, "applied", "applied.json")) or {}
    except ValueError:
        return False
    source = wish.state.source
    now = {"digest": wish.state.digest, "file": os.path.abspath(source), "commit": commit_of(source)}
    return bool(found) and all(found[name] == value for name, value in now.items() if name in found)


def _plan(host: Host, wish: Wish, by: Supervision) -> Planned:
    """The plan, made again where the engines that are about to start told something that was not known."""
    planned = make_plan(host, wish.state, for_apply=True)
    if ask_engines(host, planned, by.say):
        return make_plan(host, wish.state, world=planned.world, for_apply=True)
    return planned


def _choose(host: Host, wish: Wish, by: Supervision, planned: Planned) -> tuple[Planned, tuple[Action, ...]]:
    refuse_guarded(planned, wish.state, host.names)
    return planned, by.choose(planned)


def _take_engines(locks: Locks, host: Host, planned: Planned, actions: Sequence[Action]) -> None:
    """Lock the engines. Raises BusyError when one of them was moved between the plan and its lock.

    `llmgw stop` works under the lock of its engine alone: what it has just stopped, an older plan must not start again.
    """
    names = [action.engine for action in actions]
    locks.take_engines(names)
    for name in names:
        now = observe_engine(read_records(name, host.state_dir.engine(name)), boot_id())
        if _standing(now) != _standing(planned.world.observed.find(name)):
            raise BusyError(f"{name} changes just now; it is planned for again")


def _standing(engine: ObservedEngine | None) -> tuple[object, ...]:
    if engine is None or (engine.live is None and engine.supervisor is None and engine.spec is None):
        return ()
    return engine.live, engine.supervisor, engine.phase if engine.phase.has_ended else None


def _carry_out(
    host: Host,
    planned: Planned,
    actions: tuple[Action, ...],
    by: Supervision,
    locks: Locks,
    held_above_mb: int,
    limits: Limits,
    occasion: Occasion,
    *,
    whole: bool,
) -> tuple[Outcome, ...]:
    def acted() -> None:
        locks.release_node()
        by.acted()

    return carry_out_actions(
        host,
        planned._replace(plan=planned.plan._replace(actions=actions)),
        by.reporter,
        limits,
        Journal(host, occasion, by.say),
        is_interrupted=by.is_interrupted,
        on_acted=acted,
        held_above_mb=held_above_mb,
        whole=whole,
    )
