"""Plan a restart: the recorded specs of some engines as wanted, and everything else as it is."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw_reconcile.discovery.engines import observe
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.model.observed import ObservedEngine
from llmgw_reconcile.model.recorded import recorded_spec
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.reconcile import reconcile
from llmgw_reconcile.workflow.applied import last_settings
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.planning import Planned, build_plan, check_specs, look


def plan_restart(host: Host, names: Sequence[str]) -> Planned:
    """The plan that starts exactly these engines afresh. Raises NodeError when a record of one of them is lost."""
    settings = last_settings(host)
    recorded = {engine.engine: engine for engine in observe(host.state_dir).engines}
    specs = tuple(_spec_of(recorded[name]) for name in names)
    world = look(host, specs, settings)
    others = {engine.engine for engine in world.observed.engines} - set(names)
    checked = check_specs(host, specs, settings, world, for_apply=True, kept=others)
    wanted = tuple(one.wanted for one in checked)
    actions = reconcile(wanted, world.observed, world.inventory.gpus)
    ours = tuple(_afresh(action) for action in actions if action.engine in names)
    return Planned(build_plan(host.node, "their records", ours, world.inventory.problems), world, wanted)


def _spec_of(engine: ObservedEngine) -> EngineSpec:
    try:
        return recorded_spec(engine.engine, engine.spec or {}, engine.bookkeeping or {})
    except (KeyError, TypeError, ValueError):
        raise NodeError(f"cannot restart {engine.engine}: its record is lost; apply the state file instead") from None


def _afresh(action: Action) -> Action:
    """What would be left alone is replaced: that is what a restart is for."""
    if action.kind in (ActionKind.KEEP, ActionKind.UPDATE, ActionKind.ADOPT):
        return action._replace(kind=ActionKind.REPLACE, reason="restarted by hand")
    return action
