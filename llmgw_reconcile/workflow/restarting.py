"""Plan a restart: the recorded specs of some engines as wanted, and everything else as it is."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw_reconcile.discovery.engines import observe
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.model.desired import NodeSettings
from llmgw_reconcile.model.group import rank_of
from llmgw_reconcile.model.observed import ObservedState
from llmgw_reconcile.model.recorded import recorded_spec
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.reconcile import Wanted, reconcile
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.planning import Planned, build_plan, check_specs, look


def plan_restart(host: Host, names: Sequence[str], settings: NodeSettings) -> Planned:
    """The plan that starts exactly these engines afresh. Raises NodeError when a record of one of them is lost."""
    observed = observe(host.state_dir)
    specs = tuple(_spec_of(observed, name, host.names) for name in names)
    world = look(host, specs, settings)
    others = {engine.engine for engine in world.observed.engines} - set(names)
    checked = check_specs(host, specs, settings, world, for_apply=True, kept=others, afresh=names)
    wanted = {one.wanted.spec.engine: one.wanted for one in checked}
    actions = reconcile(tuple(wanted.values()), world.observed, world.inventory.gpus)
    ours = tuple(_afresh(action, wanted[action.engine]) for action in actions if action.engine in names)
    plan = build_plan(host.node, "their records", ours, world.inventory.problems)
    return Planned(plan, world, tuple(wanted.values()))


def _spec_of(observed: ObservedState, engine: str, names: Sequence[str]) -> EngineSpec:
    seen = observed.find(engine)
    if seen is None:
        raise NodeError("; ".join(problem.message for problem in observed.problems) or f"{engine} was just removed")
    try:
        spec = recorded_spec(engine, seen.spec or {}, seen.bookkeeping or {})
    except (KeyError, TypeError, ValueError):
        raise NodeError(f"cannot restart {engine}: its record is lost; apply the state file instead") from None
    if (rank := rank_of(spec.model.nodes, names)) is None:
        known = ", ".join(node.name for node in spec.model.nodes)
        raise NodeError(f"cannot restart {engine}: it is for {known}; say which of them this is: --node NAME")
    return spec._replace(rank=rank)


def _afresh(action: Action, want: Wanted) -> Action:
    """What would be left alone is replaced: that is what a restart is for. What runs and could not start is kept."""
    if action.kind not in (ActionKind.KEEP, ActionKind.UPDATE, ActionKind.ADOPT):
        return action
    if want.blocked:
        return action._replace(kind=ActionKind.BLOCKED, reason="kept as it runs", diagnostics=want.blocked)
    return action._replace(kind=ActionKind.REPLACE, reason="restarted by hand")
