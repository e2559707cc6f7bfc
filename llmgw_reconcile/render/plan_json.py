"""A plan to its JSON document (contract §6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.plan.actions import Action, ActionKind, FieldChange, Plan
from llmgw_reconcile.render.diagnostics import diagnostic_document
from llmgw_reconcile.render.documents import FORMAT_VERSION


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values, the same for the same plan: no times, keys in a fixed order, secrets masked."""
    return {
        "format_version": FORMAT_VERSION,
        "node": plan.node,
        "state": plan.state,
        "digest": plan.digest,
        "summary": {str(kind): plan.count(kind) for kind in ActionKind},
        "actions": [_action(action) for action in plan.actions],
        "diagnostics": [diagnostic_document(diagnostic) for diagnostic in dict.fromkeys(_all_diagnostics(plan))],
    }


def _all_diagnostics(plan: Plan) -> Iterator[Diagnostic]:
    yield from plan.diagnostics
    for action in plan.actions:
        yield from action.diagnostics


def _action(action: Action) -> dict[str, Any]:
    return {
        "action": str(action.kind),
        "engine": action.engine,
        "reason": ": ".join(filter(None, (action.reason, "; ".join(_blocking(action))))),
        "changes": [_change(change) for change in action.changes],
        "at_next_start": [_change(change) for change in action.at_next_start],
        "gpus": list(action.gpus),
        "port": action.port,
        "command": list(action.command),
        "environment": dict(action.environment),
    }


def _blocking(action: Action) -> list[str]:
    return [d.message for d in action.diagnostics if action.kind is ActionKind.BLOCKED and d.severity is Severity.ERROR]


def _change(change: FieldChange) -> dict[str, Any]:
    return change._asdict()
