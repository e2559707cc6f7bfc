from llmgw_reconcile.errors import Severity
from llmgw_reconcile.render.diagnostics import diagnostic_document, diagnostics_text
from tests.plan.builders import error, warning


def test_errors_come_first_and_hints_below():
    found = [warning("w", "odd"), error("e", "cannot do it", "do this"), error("f", "nor that", where="")]
    assert diagnostics_text(found) == (
        "error[e] chat@0: cannot do it\n  hint: do this\nerror[f] nor that\nwarning[w] chat@0: odd\n"
    )


def test_notes_come_last_in_a_colour_of_their_own():
    note = warning("n", "not known")._replace(severity=Severity.NOTE)
    assert diagnostics_text([note, warning("w", "odd")]) == "warning[w] chat@0: odd\nnote[n] chat@0: not known\n"
    assert diagnostics_text([note], color=True) == "\x1b[36mnote[n]\x1b[0m chat@0: not known\n"


def test_none_are_no_text():
    assert diagnostics_text([]) == ""


def test_a_long_one_is_wrapped_below_its_head():
    found = [error("not-enough-gpus", "cannot give it 16 GPUs: the node has 8\nGPU 3: 2 ECC errors", "ask for fewer")]
    assert diagnostics_text(found, width=40) == (
        "error[not-enough-gpus] chat@0: cannot\n"
        "  give it 16 GPUs: the node has 8\n"
        "  GPU 3: 2 ECC errors\n"
        "  hint: ask for fewer\n"
    )


def test_colour_marks_the_head():
    assert diagnostics_text([warning("w", "odd")], color=True) == "\x1b[33mwarning[w]\x1b[0m chat@0: odd\n"


def test_the_json_form_has_every_field():
    assert diagnostic_document(error("e", "cannot do it", "do this")) == {
        "severity": "error",
        "code": "e",
        "where": "chat@0",
        "message": "cannot do it",
        "hint": "do this",
    }
