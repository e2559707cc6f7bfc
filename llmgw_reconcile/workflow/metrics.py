"""Gather what the metrics of this node tell: its engines and cards, what an apply would change, and the last apply."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llmgw_reconcile import __version__
from llmgw_reconcile.discovery.status import StatusLook, look_at_status
from llmgw_reconcile.errors import LlmgwError, Severity
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.plan.actions import ActionKind, Plan
from llmgw_reconcile.render.prometheus import LastApply, NodeReport, node_families, prometheus_text
from llmgw_reconcile.workflow.applied import about_last_apply, last_applied
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.planning import make_plan
from llmgw_reconcile.workflow.reading import state_from_bytes


def metrics_page(host: Host) -> str:
    """The metrics of this node as it is now, in Prometheus's text format."""
    look = look_at_status(host.state_dir, node=host.node, sys_root=host.sys_root, environ=host.environ)
    return prometheus_text(node_families(node_report(host, look)))


def node_report(host: Host, look: StatusLook) -> NodeReport:
    """What was seen, with what an apply would change now, and what is recorded of the last one."""
    applied = last_apply(host.state_dir)
    return NodeReport(host.node, __version__, look.observed, look.inventory, pending_changes(host), applied)


def pending_changes(host: Host) -> Mapping[ActionKind, int] | None:
    """What an apply of the state that was applied last would do now; None where that cannot be told."""
    try:
        applied = last_applied(host.state_dir)
        if applied is None:
            return None
        base = os.getcwd() if applied.file == "-" else os.path.dirname(applied.file)
        plan = make_plan(host, state_from_bytes(applied.file, applied.data, base)).plan
    except (LlmgwError, OSError):
        return None
    return changes_of(plan)


def changes_of(plan: Plan) -> Mapping[ActionKind, int] | None:
    """How many engines a plan does what to; None when the node could not be read in full."""
    if any(found.severity is Severity.ERROR for found in plan.diagnostics):
        return None
    return {kind: plan.count(kind) for kind in ActionKind}


def last_apply(state_dir: StateDir) -> LastApply | None:
    """The last apply; None before the first, and where its record cannot be believed."""
    found = about_last_apply(state_dir)
    if not isinstance(found.get("at"), str):
        return None
    ok = found.get("ok")
    return LastApply(
        found["at"], str(found.get("file", "-")), found.get("commit"), ok if isinstance(ok, bool) else None
    )
