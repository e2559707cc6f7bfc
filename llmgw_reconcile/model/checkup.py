"""What a look at one side of the node found: a line for people, and what is wrong with it."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic, Severity


class Check(NamedTuple):
    """One check; every finding has a hint, which is its cure."""

    name: str
    summary: str  # what was found, in a few words
    findings: tuple[Diagnostic, ...] = ()

    @property
    def worst(self) -> Severity | None:
        """The heaviest of its findings; None when all is well."""
        found = {finding.severity for finding in self.findings}
        return next((severity for severity in Severity if severity in found), None)
