"""Checks of a node to a list for people, each finding below its check, and to JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.checkup import Check
from llmgw_reconcile.render.diagnostics import diagnostic_document, diagnostics_text
from llmgw_reconcile.render.documents import FORMAT_VERSION
from llmgw_reconcile.render.terminal import Style, painter, wrapped

_WORDS = {None: ("ok", Style.GOOD), Severity.NOTE: ("ok", Style.GOOD)} | {
    Severity.WARNING: ("look", Style.CHANGE),
    Severity.ERROR: ("bad", Style.BAD),
}


def checkup_document(node: str, checks: Sequence[Check]) -> dict[str, Any]:
    """The checks as JSON values."""
    return {
        "format_version": FORMAT_VERSION,
        "node": node,
        "checks": [
            {
                "name": check.name,
                "worst": None if check.worst is None else str(check.worst),
                "summary": check.summary,
                "findings": [diagnostic_document(finding) for finding in check.findings],
            }
            for check in checks
        ],
    }


def checkup_text(checks: Sequence[Check], *, width: int | None = None, color: bool = False) -> str:
    """A line for each check, then all that was found, each with its cure. `width` None: not wrapped."""
    paint = painter(color=color)
    names = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        word, style = _WORDS[check.worst]
        first, *others = wrapped(check.summary, width=width, first=f"{word:<4}  {check.name:<{names}}  ")
        lines += [paint(word, style) + first[len(word) :], *others]
    findings = [finding for check in checks for finding in check.findings]
    found = diagnostics_text(findings, width=width, color=color)
    return "".join(f"{line}\n" for line in lines) + (f"\n{found}" if found else "")
