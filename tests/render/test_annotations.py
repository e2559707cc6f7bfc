import pytest

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.render.annotations import annotation


@pytest.mark.parametrize(
    ("diagnostic", "command"),
    [
        pytest.param(
            Diagnostic(Severity.ERROR, "unknown-key", "nodes/a.yaml:3:50", "models[0].prot: unknown key", "port?"),
            "::error col=50,file=site/nodes/a.yaml,line=3,title=unknown-key::models[0].prot: unknown key%0Ahint: port?",
            id="an-error-with-line-and-column",
        ),
        pytest.param(
            Diagnostic(Severity.WARNING, "literal-secret", "a.yaml:1:1", "100% sure\r\n::error::no"),
            "::warning col=1,file=site/a.yaml,line=1,title=literal-secret::100%25 sure%0D%0A::error::no",
            id="a-warning-that-cannot-begin-a-command-of-its-own",
        ),
        pytest.param(
            Diagnostic(Severity.NOTE, "n", "a:b,c.yaml:2:3", "words"),
            "::notice col=3,file=site/a%3Ab%2Cc.yaml,line=2,title=n::words",
            id="a-file-with-a-colon-and-a-comma",
        ),
        pytest.param(
            Diagnostic(Severity.ERROR, "state-unreadable", "gone.yaml", "cannot read it"),
            "::error file=site/gone.yaml,title=state-unreadable::cannot read it",
            id="a-file-without-a-line",
        ),
    ],
)
def test_a_diagnostic_becomes_a_workflow_command(diagnostic, command):
    assert annotation(diagnostic, lambda file: f"site/{file}") == command
