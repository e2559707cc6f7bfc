"""A plan to Markdown for pull requests and job summaries: a table of what happens, and the details to be unfolded.

Names, paths and values come from files that anybody may propose: they stand in code spans and fences only, which they
cannot end, so that they become no link, no mention of a person and no markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic
from llmgw_reconcile.model.launch import SECRET_TEXT
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import Action, ActionKind, FieldChange, Plan
from llmgw_reconcile.render.diagnostics import diagnostics_text
from llmgw_reconcile.render.fields import FORCES, command_lines, value_text
from llmgw_reconcile.render.plan_words import (
    blocking_diagnostics,
    cards_text,
    other_diagnostics,
    sign_of,
    summary_text,
)

SIZE_LIMIT = 60_000  # characters; GitHub takes comments of 65,536
COMMAND_WIDTH = 100

_AMBIGUOUS = frozenset("|`\\")

_HEADINGS = "| | Engine | Action | Why | GPUs | Port |\n| :-: | --- | --- | --- | --- | --: |\n"


class _Block(NamedTuple):
    """Something that is put into a fence."""

    language: str
    lines: Sequence[str]


def plan_markdown(plan: Plan) -> str:
    """The counts, a table of all that is not simply kept, the details of each, warnings, and the digest.

    Details that would make it longer than a comment may be are left out, and counted.
    """
    shown = [action for action in plan.actions if action.kind is not ActionKind.KEEP or action.at_next_start]
    parts = [
        f"### Plan for {_code(plan.node)} from {_code(plan.state)}\n",
        f"**{summary_text(plan)}**\n",
    ]
    parts += [_HEADINGS + "".join(map(_row, shown))] if shown else []
    end = [*_diagnostics(other_diagnostics(plan)), _approval(plan)]
    room = SIZE_LIMIT - sum(len(part) + 1 for part in (*parts, *end))
    details = list(_within(room, [text for action in shown if (text := _details(action))]))
    return "\n".join([*parts, *details, *end])


def _row(action: Action) -> str:
    port = "" if action.port is None else str(action.port)
    foreign = (sign_of(action), action.engine), (_why(action), cards_text(action))
    (sign, engine), (why, cards) = (tuple(map(_cell, pair)) for pair in foreign)
    return f"| {sign} | {engine} | {action.kind} | {why} | {cards} | {port} |\n"


def _why(action: Action) -> str:
    reasons = blocking_diagnostics(action) if action.kind is ActionKind.BLOCKED else ()
    return "; ".join(reason.message for reason in reasons) or action.reason


def _details(action: Action) -> str:
    """What is unfolded: the changes as a diff, the command of a start, and what blocks the engine, with its cures."""
    next_start = ["# at next start", *_diff(action.at_next_start)] if action.at_next_start else []
    blocks = [_Block("diff", [*_diff(action.changes), *next_start])]
    if action.kind is ActionKind.START:
        blocks.append(_Block("sh", command_lines(action.command, first="", width=COMMAND_WIDTH)))
    if action.kind is ActionKind.BLOCKED:
        blocks.append(_Block("text", diagnostics_text(blocking_diagnostics(action)).splitlines()))
    fences = [_fence(block) for block in blocks if block.lines]
    if not fences:
        return ""
    title = f"<summary><code>{_html(action.engine)}</code> {action.kind}</summary>"
    return "\n".join(["<details>", f"{title}\n", *fences, "</details>\n"])


def _diff(changes: Iterable[FieldChange]) -> Iterator[str]:
    for change in changes:
        remark = f"  {FORCES}" if change.forces_replace else ""
        field = neutralise(change.field)
        if change.before == change.after == SECRET_TEXT:
            yield f"! {field}: {SECRET_TEXT} changed{remark}"
            continue
        yield f"- {field}: {neutralise(value_text(change.before))}"
        yield f"+ {field}: {neutralise(value_text(change.after))}{remark}"


def _within(room: int, details: Sequence[str]) -> Iterator[str]:
    """As many as there is room for."""
    for number, text in enumerate(details):
        room -= len(text) + 1
        if room < 0:
            yield f"The details of {len(details) - number} more are left out here: `llmgw plan` shows them.\n"
            return
        yield text


def _diagnostics(diagnostics: Sequence[Diagnostic]) -> list[str]:
    if not diagnostics:
        return []
    return [_fence(_Block("text", diagnostics_text(diagnostics).splitlines()))]


def _approval(plan: Plan) -> str:
    if not plan.has_changes:
        return f"Plan {_code(plan.digest)}\n"
    return f"Plan {_code(plan.digest)}: `llmgw apply --expect DIGEST` carries out exactly this one.\n"


def _code(text: str) -> str:
    """A code span, with more backticks around it than it holds in a row (CommonMark 0.31, section 6.1)."""
    clean = neutralise(text)
    ticks = "`" * (_longest_run(clean) + 1)
    pad = " " if clean.startswith(("`", " ")) or clean.endswith(("`", " ")) else ""
    return f"{ticks}{pad}{clean}{pad}{ticks}"


def _cell(text: str) -> str:
    """Code in a table, which a bar ends even there: a text that has one is spelled out in character references."""
    clean = neutralise(text)
    if not clean.strip():
        return ""
    if _AMBIGUOUS.isdisjoint(clean):
        return f"`{clean}`"
    return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in clean)}</code>"


def _fence(block: _Block) -> str:
    """A fenced block, with a fence that none of its lines can close."""
    lines = [neutralise(line) for line in block.lines]
    ticks = "`" * max(3, *(_longest_run(line) + 1 for line in lines))
    return "\n".join([f"{ticks}{block.language}", *lines, f"{ticks}\n"])


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _html(text: str) -> str:
    return neutralise(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
