import pytest

from llmgw_reconcile.statefile.later import OF_A_MODEL
from tests.statefile.states import HEAD, diagnostics_of, errors_of, with_field

ASKED = {
    "user": ("user: llm", "6:11"),
    "gpus.share": ("gpus: {share: true}", "6:19"),
    "update": ("update: surge", "6:13"),
    "adopt": ("adopt: true", "6:12"),
    "moved": ("moved: {from: old}", "6:12"),
    "readiness.generate": ("readiness: {generate: true}", "6:27"),
}


@pytest.mark.parametrize("field", ASKED)
def test_what_is_still_to_come_is_refused_and_never_ignored(field):
    line, place = ASKED[field]
    assert errors_of(with_field(line)) == [f"node.yaml:{place}: models[0].{field}: not supported yet"]


@pytest.mark.parametrize("field", ASKED)
def test_defaults_cannot_ask_for_it_either(field):
    line, _ = ASKED[field]
    assert [error.partition(": ")[2] for error in errors_of(f"defaults:\n  {line}\n{HEAD}")] == [
        f"defaults.{field}: not supported yet"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "gpus: {share: false}",
        "update: recreate",
        "adopt: false",
        "readiness: {generate: false}",
    ],
)
def test_the_value_that_changes_nothing_is_accepted(line):
    assert diagnostics_of(with_field(line)) == ()


def test_every_row_of_the_table_is_tried_here():
    assert {".".join(field) for field in OF_A_MODEL} == ASKED.keys()


def test_a_wrong_shape_is_told_even_of_a_field_that_is_still_to_come():
    assert [error.partition(", ")[0].partition(": ")[2] for error in errors_of(with_field("moved: {from: 0}"))] == [
        "models[0].moved: not supported yet",
        "models[0].moved.from: found the integer 0",
    ]
