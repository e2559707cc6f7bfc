"""A plan to words for people: what happens to which engine and why, and how much in all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import Action, ActionKind, Plan
from llmgw_reconcile.render.diagnostics import diagnostics_text
from llmgw_reconcile.render.fields import FORCES, Row, change_rows, command_lines, label_width, row_lines
from llmgw_reconcile.render.plan_words import (
    blocking_diagnostics,
    cards_text,
    other_diagnostics,
    sign_of,
    summary_text,
)
from llmgw_reconcile.render.terminal import INDENT, Paint, Style, painter, wrapped

WIDEST_ENGINE = 24  # columns that engine ids are aligned to; longer ones stick out

_STYLES = {
    ActionKind.START: Style.GOOD,
    ActionKind.STOP: Style.BAD,
    ActionKind.REPLACE: Style.CHANGE,
    ActionKind.ADOPT: Style.NOTE,
    ActionKind.UPDATE: Style.CHANGE,
    ActionKind.KEEP: Style.PLAIN,
    ActionKind.BLOCKED: Style.BAD,
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
    parts.append(diagnostics_text(other_diagnostics(plan), width=width, color=color))
    parts.append("".join(f"{line}\n" for line in _summary(plan, page)))
    return "\n".join(filter(None, parts))


def _summary(plan: Plan, page: _Page) -> list[str]:
    if not plan.has_changes and not plan.count(ActionKind.BLOCKED):
        return wrapped(summary_text(plan), width=page.width)
    first, *others = wrapped(summary_text(plan), width=page.width, first="Plan: ")
    return [first.replace("Plan:", page.paint("Plan:", Style.STRONG), 1), *others]


def _action_lines(action: Action, page: _Page) -> Iterator[str]:
    yield from _head(action, page)
    for line in _details(action, page):
        yield line.replace(FORCES, page.paint(FORCES, Style.BAD))
    if action.at_next_start:
        yield f"{' ' * INDENT}{page.paint('~', Style.CHANGE)} at next start"
        yield from row_lines(change_rows(action.at_next_start), width=page.width, indent=INDENT + 2)
    if action.kind is ActionKind.BLOCKED:
        for reason in blocking_diagnostics(action):
            yield from _reason(action, reason, page)


def _head(action: Action, page: _Page) -> list[str]:
    sign, style = sign_of(action), _STYLES[action.kind]
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
        rows += [Row("gpus", cards_text(action))] if action.gpus else []
        rows += [Row("port", str(action.port))] if action.port is not None else []
    command = action.command if starts or page.verbose else ()
    labels = label_width([row.label for row in rows] + ["command"] * bool(command))
    yield from row_lines(rows, width=page.width, labels=labels)
    if command:
        yield from command_lines(command, first=f"{' ' * INDENT}{'command':<{labels}}  ", width=page.width)
    if page.verbose:
        yield from row_lines([Row(f"env.{name}", value) for name, value in action.environment], width=page.width)


def _reason(action: Action, reason: Diagnostic, page: _Page) -> Iterator[str]:
    """What blocks an engine, with the code that `accept` and `explain` know it by."""
    where = "" if reason.where in ("", action.engine) else f"{reason.where}: "
    code = f"{' ' * INDENT}[{reason.code}]"
    first, *others = wrapped(f"{where}{reason.message}", width=page.width, first=f"{code} ", below=INDENT + 2)
    yield page.paint(code, Style.BAD) + first[len(code) :]
    yield from others
    if reason.hint:
        yield from wrapped(reason.hint, width=page.width, first=f"{' ' * (INDENT + 2)}hint: ")
