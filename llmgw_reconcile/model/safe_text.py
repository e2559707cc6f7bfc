"""Make text of others fit to be shown: secrets masked by value, control characters made visible."""

from __future__ import annotations

import re
from collections.abc import Iterable

from llmgw_reconcile.model.launch import SECRET_TEXT

SHORTEST_SECRET = 4  # characters; masking `no` or `1` wherever it stands would spoil the text and hide nothing
CUT = "..."

# Terminal sequences that only colour or move (ECMA-48 CSI, and OSC up to its end) go; what is left of others is shown.
_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
# C0 but for the tab, DEL, C1, line separators, text that turns the reading direction, and undecodable bytes.
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def mask(text: str, values: Iterable[str]) -> str:
    """The text with each of these secret values replaced; a value that contains another one goes first."""
    known = sorted({value for value in values if len(value) >= SHORTEST_SECRET}, key=lambda v: (-len(v), v))
    return re.sub("|".join(map(re.escape, known)), SECRET_TEXT, text) if known else text


def neutralise(text: str, width: int | None = None) -> str:
    r"""One line that a terminal prints and does not obey, cut to `width` characters.

    >>> neutralise("\x1b[31mred\x1b[0m\r\x07 end", 20)
    'red\\x0d\\x07 end'
    >>> neutralise("a long line", 9)
    'a long...'
    """
    if not text.isprintable():
        text = _CONTROLS.sub(_visible, _SEQUENCES.sub("", text))
    return text if width is None or len(text) <= width else text[: max(0, width - len(CUT))] + CUT


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was no UTF-8, as surrogateescape keeps it
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
