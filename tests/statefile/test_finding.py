import pytest

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.statefile.finding import Finding, path_text, printable


def test_a_finding_reads_file_line_column_path_message():
    finding = Finding(6, 11, ("models", 0, "port"), "wrong-value", "found the integer 0", "choose another")
    assert str(finding.diagnostic("node.yaml")) == (
        "error[wrong-value] node.yaml:6:11: models[0].port: found the integer 0\n  hint: choose another"
    )


def test_a_finding_about_the_whole_file_has_no_path():
    finding = Finding(1, 1, (), "state-empty", "the file is empty", severity=Severity.WARNING)
    assert str(finding.diagnostic("-")) == "warning[state-empty] -:1:1: the file is empty"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("llama-70b", "llama-70b", id="plain"),
        pytest.param("模型", "模型", id="other-scripts-stay"),
        pytest.param("a\nb\x1b[2J", r"a\nb\x1b[2J", id="control-characters"),
        pytest.param("a\u202eb", r"a\u202eb", id="reversed-direction"),
        pytest.param("a\xa0b", r"a\xa0b", id="no-break-space"),
        pytest.param("x" * 61, "x" * 60 + "…", id="long"),
    ],
)
def test_what_is_shown_of_the_file_cannot_disturb_a_terminal(text, shown):
    assert printable(text) == shown


def test_a_key_that_would_disturb_a_terminal_is_escaped_in_its_path():
    assert path_text(("models", 2, "po\u202ert")) == r"models[2].po\u202ert"
