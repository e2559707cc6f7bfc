"""How a check ended."""

from __future__ import annotations

import pytest

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.checkup import Check

NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR


@pytest.mark.parametrize(
    ("severities", "worst"),
    [
        pytest.param([], None, id="all-is-well"),
        pytest.param([NOTE], NOTE, id="a-note"),
        pytest.param([WARNING, NOTE], WARNING, id="a-warning-outweighs-a-note"),
        pytest.param([WARNING, ERROR], ERROR, id="an-error-outweighs-all"),
    ],
)
def test_the_heaviest_finding_counts(severities: list[Severity], worst: Severity | None) -> None:
    findings = tuple(Diagnostic(severity, "code", "here", "words", "cure") for severity in severities)
    assert Check("name", "summary", findings).worst is worst
