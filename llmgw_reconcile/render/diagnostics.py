"""Diagnostics to words and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.render.terminal import Style, painter, wrapped

_STYLES = {Severity.ERROR: Style.BAD, Severity.WARNING: Style.CHANGE, Severity.NOTE: Style.NOTE}


def diagnostic_document(diagnostic: Diagnostic) -> dict[str, Any]:
    """As the plan document has it (contract §6)."""
    return diagnostic._asdict() | {"severity": str(diagnostic.severity)}


def diagnostics_text(diagnostics: Sequence[Diagnostic], *, width: int | None = None, color: bool = False) -> str:
    """Errors before warnings before notes, otherwise in their order; each with its hint below. Empty for none."""
    by_weight = sorted(diagnostics, key=lambda d: list(Severity).index(d.severity))
    return "".join(f"{line}\n" for d in by_weight for line in _lines(d, width, color=color))


def _lines(diagnostic: Diagnostic, width: int | None, *, color: bool) -> Iterable[str]:
    head = f"{diagnostic.severity}[{diagnostic.code}]"
    where = f" {diagnostic.where}:" if diagnostic.where else ""
    first, *others = wrapped(f"{where} {diagnostic.message}".lstrip(), width=width, first=f"{head} ", below=2)
    yield painter(color=color)(head, _STYLES[diagnostic.severity]) + first[len(head) :]
    yield from others
    if diagnostic.hint:
        yield from wrapped(diagnostic.hint, width=width, first="  hint: ")
