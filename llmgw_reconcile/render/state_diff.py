"""What one state file asks for differently from another one, to words and to JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import FieldChange
from llmgw_reconcile.plan.state_diff import Difference, ModelDiff, StateDiff
from llmgw_reconcile.render.documents import FORMAT_VERSION
from llmgw_reconcile.render.fields import FORCES, change_rows, row_lines
from llmgw_reconcile.render.terminal import Paint, Style, painter, wrapped

_SIGNS = {
    Difference.ADDED: ("+", Style.GOOD),
    Difference.REMOVED: ("-", Style.BAD),
    Difference.CHANGED: ("~", Style.CHANGE),
}


def state_diff_document(diff: StateDiff, *, before: str | None, after: str) -> dict[str, Any]:
    """The comparison as JSON values; `before` and `after` name the files, None is none yet."""
    return {
        "format_version": FORMAT_VERSION,
        "before": before,
        "after": after,
        "node": [change._asdict() for change in diff.node],
        "models": [
            {
                "name": model.name,
                "difference": str(model.difference),
                "changes": [change._asdict() for change in model.changes],
            }
            for model in diff.models
        ],
    }


def state_diff_text(
    diff: StateDiff, *, before: str | None, after: str, width: int | None = None, color: bool = False
) -> str:
    """Each model that differs, with its fields; then the counts, or one sentence when nothing differs.

    `before` is the file applied last, None if there is none; `width` None: not wrapped.
    """
    if diff.is_empty:
        same = wrapped("No differences: it asks for what was applied last.", width=width)
        return "".join(f"{line}\n" for line in same)
    paint = painter(color=color)
    applied = (
        f"From {before}, as it was applied last," if before else "From nothing, since nothing was applied here yet,"
    )
    lines = [*wrapped(f"{applied} to {after}", width=width), ""]
    for model in diff.models:
        if model.difference is not Difference.SAME:
            lines += _model_lines(model, width, paint)
    if diff.node:
        lines += [f"  {paint('~', Style.CHANGE)} node", *_change_lines(diff.node, width, paint)]
    counts = ", ".join(f"{diff.count(difference)} {difference}" for difference in Difference)
    return "".join(f"{line}\n" for line in [*lines, "", *wrapped(f"Models: {counts}.", width=width)])


def _model_lines(model: ModelDiff, width: int | None, paint: Paint) -> Iterator[str]:
    sign, style = _SIGNS[model.difference]
    yield f"  {paint(sign, style)} {paint(neutralise(model.name), Style.STRONG)}"
    yield from _change_lines(model.changes, width, paint)


def _change_lines(changes: tuple[FieldChange, ...], width: int | None, paint: Paint) -> Iterator[str]:
    for line in row_lines(change_rows(changes), width=width):
        yield line.replace(FORCES, paint(FORCES, Style.BAD))
