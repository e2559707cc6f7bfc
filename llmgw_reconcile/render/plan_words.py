"""What a plan is called in every rendering of it for people: signs, counts, cards, and which warnings stand apart."""

from __future__ import annotations

from itertools import groupby

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.plan.actions import Action, ActionKind, Plan

_SIGNS = {
    ActionKind.START: "+",
    ActionKind.STOP: "-",
    ActionKind.REPLACE: "-/+",
    ActionKind.ADOPT: "<=",
    ActionKind.UPDATE: "~",
    ActionKind.KEEP: "",
    ActionKind.BLOCKED: "!",
}


def sign_of(action: Action) -> str:
    """Its sign in the diff (contract §1)."""
    return "+/-" if action.surge else _SIGNS[action.kind]


def summary_text(plan: Plan) -> str:
    """The counts, or one sentence when there is nothing to do."""
    counts = {kind: plan.count(kind) for kind in ActionKind}
    kept = counts[ActionKind.KEEP]
    if plan.has_changes or counts[ActionKind.BLOCKED]:
        updates = f", {counts[ActionKind.UPDATE]} to update" if counts[ActionKind.UPDATE] else ""
        return (
            f"{counts[ActionKind.START]} to start, {counts[ActionKind.REPLACE]} to replace, "
            f"{counts[ActionKind.STOP]} to stop, {counts[ActionKind.ADOPT]} to adopt{updates}; "
            f"{kept} unchanged, {counts[ActionKind.BLOCKED]} blocked."
        )
    if plan.has_errors:
        return "No change can be planned before these errors are cured."
    runs = {0: "The state file asks for no engine, and none runs", 1: "1 engine runs as the state file says"}
    return f"No changes. {runs.get(kept, f'{kept} engines run as the state file says')}."


def cards_text(action: Action) -> str:
    """`0, 1 (h100-80g)`: cards of one class together, in their order."""
    labels = action.gpu_labels or action.gpus
    classes = action.gpu_classes or ("unknown",) * len(labels)
    groups = groupby(zip(labels, classes, strict=True), key=lambda card: card[1])
    return ", ".join(f"{', '.join(label for label, _ in cards)} ({name})" for name, cards in groups)


def blocking_diagnostics(action: Action) -> tuple[Diagnostic, ...]:
    """Why it is blocked."""
    return tuple(found for found in action.diagnostics if found.severity is Severity.ERROR)


def other_diagnostics(plan: Plan) -> list[Diagnostic]:
    """Those of the plan, and the warnings of its actions: what blocks an engine stands with that engine."""
    of_actions = [diagnostic for action in plan.actions for diagnostic in action.diagnostics]
    warnings = [diagnostic for diagnostic in of_actions if diagnostic.severity is Severity.WARNING]
    blocking = {diagnostic for diagnostic in of_actions if diagnostic.severity is Severity.ERROR}
    return [found for found in dict.fromkeys([*plan.diagnostics, *warnings]) if found not in blocking]
