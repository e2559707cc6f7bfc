"""What tools, files and strangers on the node said, made safe to be shown on one line."""

from __future__ import annotations

LIMIT = 300  # characters


def one_line(text: str, limit: int = LIMIT) -> str:
    r"""Lines joined by `; `, blanks squeezed, control and other invisible characters escaped, the rest cut.

    >>> one_line("Failed\n  \x1b[31mNVML:\tmismatch\n\n")
    'Failed; \\x1b[31mNVML: mismatch'
    """
    joined = "; ".join(filter(None, (" ".join(line.split()) for line in text[: 4 * limit].split("\n"))))
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in joined)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
