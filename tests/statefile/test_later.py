import pytest

from llmgw_reconcile.statefile.later import OF_A_MODEL, OF_THE_NODE
from tests.statefile.states import HEAD, diagnostics_of, errors_of, with_field

ASKED = {
    "engine_version": ('engine_version: "0.33.*"', "6:21"),
    "user": ("user: llm", "6:11"),
    "nodes": ("nodes: [gpu-07, gpu-08]", "6:12"),
    "gpus.count": ("gpus: {count: 2}", "6:19"),
    "gpus.share": ("gpus: {share: true}", "6:19"),
    "update": ("update: surge", "6:13"),
    "adopt": ("adopt: true", "6:12"),
    "moved": ("moved: {from: old}", "6:12"),
    "readiness.generate": ("readiness: {generate: true}", "6:27"),
    "liveness.failures": ("liveness: {failures: 3}", "6:26"),
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


@pytest.mark.parametrize("fabric", ["none", "{socket_interface: bond0}"])
def test_a_chosen_fabric_is_still_to_come(fabric):
    assert errors_of(f"node: {{fabric: {fabric}}}\n{HEAD}") == ["node.yaml:1:16: node.fabric: not supported yet"]


@pytest.mark.parametrize(
    "line",
    [
        "nodes: [gpu-07]",
        "gpus: {share: false}",
        "update: recreate",
        "adopt: false",
        "readiness: {generate: false}",
        "liveness: {failures: 0}",
    ],
)
def test_the_value_that_changes_nothing_is_accepted(line):
    assert diagnostics_of(with_field(line)) == ()


def test_the_automatic_fabric_is_accepted():
    assert diagnostics_of(f"node: {{fabric: auto}}\n{HEAD}") == ()


def test_every_row_of_the_tables_is_tried_here():
    assert {".".join(field) for field in OF_A_MODEL} == ASKED.keys()
    assert list(OF_THE_NODE) == [("fabric",)]


def test_a_wrong_shape_is_told_even_of_a_field_that_is_still_to_come():
    assert [error.partition(": ")[2] for error in errors_of(with_field("gpus: {count: 0}"))] == [
        "models[0].gpus.count: found the integer 0, expected an integer from 1 to 1024",
        "models[0].gpus.count: not supported yet",
    ]
