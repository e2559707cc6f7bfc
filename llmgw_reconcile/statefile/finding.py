"""What is wrong at one place of a state file, before the file's name is put to it."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic, Severity

Path = tuple[str | int, ...]  # ("models", 0, "port")

LONGEST_EXCERPT = 60


class Finding(NamedTuple):
    """One finding; line and column come first, so that findings sort as the file is read."""

    line: int
    column: int
    path: Path
    code: str
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR

    def diagnostic(self, source: str) -> Diagnostic:
        """The finding as file:line:column: path: message."""
        message = f"{path_text(self.path)}: {self.message}" if self.path else self.message
        return Diagnostic(self.severity, self.code, f"{source}:{self.line}:{self.column}", message, self.hint)


def path_text(path: Path) -> str:
    """A path as people write it.

    >>> path_text(("models", 0, "env", "HF_HOME"))
    'models[0].env.HF_HOME'
    """
    parts = (f"[{part}]" if isinstance(part, int) else f".{printable(part)}" for part in path)
    return "".join(parts).removeprefix(".")


def printable(text: str) -> str:
    """Text with line breaks, escape sequences, look-alike spaces and the like escaped, and long text cut short.

    >>> printable("a\\u202eb")
    'a\\\\u202eb'
    """
    if len(text) > LONGEST_EXCERPT:
        text = text[:LONGEST_EXCERPT] + "…"
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
