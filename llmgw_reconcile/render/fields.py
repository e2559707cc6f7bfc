"""Fields and command lines to labelled, aligned lines: old => new, and what forces a replacement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from llmgw_reconcile.model.launch import SECRET_TEXT
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import FieldChange
from llmgw_reconcile.render.terminal import INDENT, NARROWEST, wrapped

WIDEST_LABEL = 24  # columns that labels are aligned to; longer ones stick out
PAGE_WIDTH = 80  # a command line is laid out, also where nothing else is wrapped
DIGEST_SHOWN = len("sha256:") + 12  # characters that tell two contents apart
FORCES = "# forces replacement"


class Row(NamedTuple):
    """One labelled line: a value, or two of which the second takes the place of the first."""

    label: str
    value: str
    after: str | None = None
    remark: str = ""


def change_rows(changes: Iterable[FieldChange]) -> list[Row]:
    """A row for each change; a secret that changed says no more than that."""
    rows = []
    for change in changes:
        remark = FORCES if change.forces_replace else ""
        if change.before == change.after == SECRET_TEXT:
            rows.append(Row(change.field, f"{SECRET_TEXT} changed", remark=remark))
        else:
            rows.append(Row(change.field, value_text(change.before), value_text(change.after), remark))
    return rows


def value_text(value: Any) -> str:
    """A JSON value in the state file's words; absent is `(unset)`.

    >>> value_text(["--seed", 1, {"file": "/t.jinja", "digest": "sha256:0123456789abcdef"}]), value_text("a b")
    ('[--seed, 1, {file: /t.jinja, digest: sha256:0123456789ab}]', '"a b"')
    """
    if value is None:
        return "(unset)"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {value_text(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, str) and value.split() == [value]:
        return value[:DIGEST_SHOWN] if value.startswith("sha256:") else value
    return json.dumps(value, ensure_ascii=False)


def label_width(labels: Iterable[str]) -> int:
    """Columns for the labels, so that their values stand in one."""
    return min(max(map(len, labels), default=0), WIDEST_LABEL)


def row_lines(
    rows: Sequence[Row], *, width: int | None, indent: int = INDENT, labels: int | None = None
) -> Iterator[str]:
    """The rows as lines within `width`; `labels`: columns for the labels, by default what these rows need."""
    columns = label_width(row.label for row in rows) if labels is None else labels
    for row in rows:
        first = f"{' ' * indent}{neutralise(row.label):<{columns}}  "
        lines = _value_lines(row, first, width)
        if width is None or len(lines[-1]) + 2 + len(row.remark) <= width:
            lines[-1] = f"{lines[-1]}  {row.remark}".rstrip()
        elif row.remark:
            lines.append(" " * (indent + 2) + row.remark)
        yield from lines


def _value_lines(row: Row, first: str, width: int | None) -> list[str]:
    whole = row.value if row.after is None else f"{row.value} => {row.after}"
    if width is None or len(first) + len(whole) <= width:
        return wrapped(whole, width=None, first=first)
    below = len(first) if width - len(first) >= NARROWEST else len(first) - len(first.lstrip()) + 2
    lines = wrapped(row.value, width=width, first=first, below=below)
    if row.after is not None:
        lines += wrapped(row.after, width=width, first=f"{' ' * below}=> ", below=below)
    return lines


def command_lines(words: Sequence[str], *, first: str, width: int | None) -> list[str]:
    """A command line that a shell takes as it stands: a flag stays with its value, lines end in a backslash."""
    lines, line = [], first
    for group in _flag_groups(words):
        if len(line) + len(group) + len(" \\") > (width or PAGE_WIDTH) and line != first:
            lines.append(f"{line}\\")
            line = " " * (len(first) + 2)
        line += f"{group} "
    return [*lines, line.rstrip()]


def _flag_groups(words: Sequence[str]) -> Iterator[str]:
    from shlex import quote  # a plan that starts nothing needs none

    group = ""
    for word in words:
        if group and word.startswith("-"):
            yield group
            group = ""
        shown = neutralise(word if SECRET_TEXT in word else quote(word))
        group = f"{group} {shown}" if group else shown
    yield group
