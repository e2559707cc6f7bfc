"""A plan to words for people: what happens to which engine and why, and how much in all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import Action, ActionKind, Plan
from llmgw_reconcile.render.diagnostics import diagnostics_text
from llmgw_reconcile.render.fields import FORCES, Row, change_rows, command_lines, label_width, row_lines
from llmgw_reconcile.render.terminal import INDENT, Paint, Style, painter, wrapped

WIDEST_ENGINE = 24  # columns that engine ids are aligned to; longer ones stick out

_SIGNS = {
    ActionKind.START: ("+", Style.GOOD),
    ActionKind.STOP: ("-", Style.BAD),
    ActionKind.REPLACE: ("-/+", Style.CHANGE),
    ActionKind.ADOPT: ("<=", Style.NOTE),
    ActionKind.UPDATE: ("~", Style.CHANGE),
    ActionKind.KEEP: ("", Style.PLAIN),
    ActionKind.BLOCKED: ("!", Style.BAD),
}


class _Page(NamedTuple):
    """How the text is to look."""

    width: int | None
    paint: Paint
    verbose: bool
    engine_width: int


def plan_text(plan: Plan, *, width: int | None = None, color: bool = False, verbose: bool = False) -> str:
    """The diff, the warnings and the counts, or one sentence when there is nothing to do.

    `width` None: not wrapped. `verbose` also shows the engines that are kept, and the environment of each start.
    """
    shown = [a for a in plan.actions if verbose or a.kind is not ActionKind.KEEP or a.at_next_start]
    longest = max((len(action.engine) for action in shown), default=0)
    page = _Page(width, painter(color=color), verbose, min(longest, WIDEST_ENGINE))
    parts = [f"Plan for {neutralise(plan.node)} from {neutralise(plan.state)}\n"] if shown else []
    parts += ["".join(f"{line}\n" for line in _action_lines(action, page)) for action in shown]
    parts.append(diagnostics_text(_diagnostics(plan), width=width, color=color))
    parts.append("".join(f"{line}\n" for line in _summary(plan, page)))
    return "\n".join(filter(None, parts))


def _diagnostics(plan: Plan) -> list[Diagnostic]:
    """Those of the plan, and the warnings of its actions: what blocks an engine stands with that engine."""
    of_actions = [diagnostic for action in plan.actions for diagnostic in action.diagnostics]
    warnings = [diagnostic for diagnostic in of_actions if diagnostic.severity is Severity.WARNING]
    blocking = {diagnostic for diagnostic in of_actions if diagnostic.severity is Severity.ERROR}
    return [found for found in dict.fromkeys([*plan.diagnostics, *warnings]) if found not in blocking]


def _summary(plan: Plan, page: _Page) -> list[str]:
    counts = {kind: plan.count(kind) for kind in ActionKind}
    kept = counts[ActionKind.KEEP]
    if plan.has_changes or counts[ActionKind.BLOCKED]:
        updates = f", {counts[ActionKind.UPDATE]} to update" if counts[ActionKind.UPDATE] else ""
        text = (
            f"{counts[ActionKind.START]} to start, {counts[ActionKind.REPLACE]} to replace, "
            f"{counts[ActionKind.STOP]} to stop, {counts[ActionKind.ADOPT]} to adopt{updates}; "
            f"{kept} unchanged, {counts[ActionKind.BLOCKED]} blocked."
        )
        first, *others = wrapped(text, width=page.width, first="Plan: ")
        return [first.replace("Plan:", page.paint("Plan:", Style.STRONG), 1), *others]
    if plan.has_errors:
        return wrapped("No change can be planned before these errors are cured.", width=page.width)
    runs = {0: "The state file asks for no engine, and none runs", 1: "1 engine runs as the state file says"}
    return wrapped(f"No changes. {runs.get(kept, f'{kept} engines run as the state file says')}.", width=page.width)


def _action_lines(action: Action, page: _Page) -> Iterator[str]:
    yield from _head(action, page)
    for line in _details(action, page):
        yield line.replace(FORCES, page.paint(FORCES, Style.BAD))
    if action.at_next_start:
        yield f"{' ' * INDENT}{page.paint('~', Style.CHANGE)} at next start"
        yield from row_lines(change_rows(action.at_next_start), width=page.width, indent=INDENT + 2)
    if action.kind is ActionKind.BLOCKED:
        for reason in action.diagnostics:
            yield from _reason(action, reason, page) if reason.severity is Severity.ERROR else ()


def _head(action: Action, page: _Page) -> list[str]:
    sign, style = ("+/-", Style.CHANGE) if action.surge else _SIGNS[action.kind]
    name = action.engine.ljust(page.engine_width)
    first, *others = wrapped(action.reason, width=page.width, first=f"{sign:>3} {name}  {action.kind:<7}  ")
    head = f"{page.paint(f'{sign:>3}', style)} {page.paint(name, Style.STRONG)}"
    return [head + first[len(f"{sign:>3} {name}") :], *others]


def _details(action: Action, page: _Page) -> Iterator[str]:
    """What is worth a look: of a start everything that is new, of the others what changes and what is freed."""
    starts = action.kind is ActionKind.START
    rows = change_rows(action.changes)
    if starts and action.spec is not None:
        rows += [Row("model", action.spec.model.model), Row("engine", str(action.spec.model.engine))]
    if action.kind in (ActionKind.START, ActionKind.REPLACE, ActionKind.STOP) or page.verbose:
        rows += [Row("gpus", _cards(action))] if action.gpus else []
        rows += [Row("port", str(action.port))] if action.port is not None else []
    command = action.command if starts or page.verbose else ()
    labels = label_width([row.label for row in rows] + ["command"] * bool(command))
    yield from row_lines(rows, width=page.width, labels=labels)
    if command:
        yield from command_lines(command, first=f"{' ' * INDENT}{'command':<{labels}}  ", width=page.width)
    if page.verbose:
        yield from row_lines([Row(f"env.{name}", value) for name, value in action.environment], width=page.width)


def _cards(action: Action) -> str:
    """`0, 1 (h100-80g)`: cards of one class together, in their order."""
    labels = action.gpu_labels or action.gpus
    classes = action.gpu_classes or ("unknown",) * len(labels)
    groups = groupby(zip(labels, classes, strict=True), key=lambda card: card[1])
    return ", ".join(f"{', '.join(label for label, _ in cards)} ({name})" for name, cards in groups)


def _reason(action: Action, reason: Diagnostic, page: _Page) -> Iterator[str]:
    """What blocks an engine, with the code that `accept` and `explain` know it by."""
    where = "" if reason.where in ("", action.engine) else f"{reason.where}: "
    code = f"{' ' * INDENT}[{reason.code}]"
    first, *others = wrapped(f"{where}{reason.message}", width=page.width, first=f"{code} ", below=INDENT + 2)
    yield page.paint(code, Style.BAD) + first[len(code) :]
    yield from others
    if reason.hint:
        yield from wrapped(reason.hint, width=page.width, first=f"{' ' * (INDENT + 2)}hint: ")
