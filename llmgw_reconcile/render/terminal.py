"""Fit words to a terminal: colour, width, wrapping and columns.

Colour is a table of a few ANSI styles, and not rich: the diff has no more than these, the same bytes come out
everywhere, and a plan at a terminal does not wait for a large import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from llmgw_reconcile.model.safe_text import neutralise

NARROWEST = 20  # columns; below that, text runs over rather than being cut to pieces
INDENT = 6  # of what belongs to the line above


class Style(StrEnum):
    """SGR parameters (ECMA-48, 8.3.117)."""

    PLAIN = ""
    STRONG = "1"
    QUIET = "2"
    GOOD = "32"  # begins, is ready
    BAD = "31"  # ends, failed, is blocked
    CHANGE = "33"  # changes, warns
    NOTE = "36"  # for information


Paint = Callable[[str, Style], str]


def painter(*, color: bool) -> Paint:
    """The function that puts text into a style; without colour it hands the text back."""

    def paint(text: str, style: Style) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if color and style and text else text

    return paint


def wants_color(flag: str, environ: Mapping[str, str], *, isatty: bool) -> bool:
    """Whether to use colour. `flag` is `auto`, `always` or `never` and decides alone unless it is `auto`.

    NO_COLOR wins over FORCE_COLOR (no-color.org), both only when not empty; a CI log is no terminal, whatever it says.
    """
    if flag != "auto":
        return flag == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return environ["FORCE_COLOR"] != "0"
    return isatty and environ.get("TERM") != "dumb" and not environ.get("CI")


def terminal_width(environ: Mapping[str, str], columns: int | None) -> int | None:
    """Columns to wrap at; None: do not wrap. `columns` is the terminal's, None where the output is none.

    What goes into a pipe is read by programs and searched for sentences, so it is not wrapped unless COLUMNS asks.
    """
    asked = environ.get("COLUMNS", "")
    width = int(asked) if asked.isdecimal() and asked.isascii() else columns
    return max(width, NARROWEST) if width else None


def wrapped(text: str, *, width: int | None, first: str = "", below: int | None = None) -> list[str]:
    """The text as neutral lines within `width`, the first one led by `first`, the others indented by `below`.

    `below` None puts them under the first word of the text, where that leaves them room. Lines of the text stay lines;
    words are not broken.
    """
    if below is None:
        below = len(first) if width is None or width - len(first) >= NARROWEST else INDENT
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        lead = " " * below if lines else first
        clean = neutralise(line)
        if width is None or len(lead) + len(clean) <= width:
            lines.append(f"{lead}{clean}".rstrip())
        else:
            lines += _folded(clean, lead, " " * below, width)
    return lines


def _folded(text: str, first: str, below: str, width: int) -> list[str]:
    import textwrap  # only where something is too wide

    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )


def columns(rows: Sequence[Sequence[str]], *, gap: int = 2) -> list[str]:
    """The rows as aligned lines, a blank cell where a row has an empty one."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [(" " * gap).join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows]
