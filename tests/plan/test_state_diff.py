"""Two state files, model by model."""

from __future__ import annotations

import pytest

from llmgw_reconcile.model.desired import DesiredState, GpuRequest, NodeSettings
from llmgw_reconcile.plan.actions import FieldChange
from llmgw_reconcile.plan.state_diff import Difference, ModelDiff, diff_states
from tests.fakes.placed import a_model


def state(*models, **fields) -> DesiredState:
    return DesiredState("node.yaml", models, **fields)


def test_the_same_file_has_no_differences() -> None:
    diff = diff_states(state(a_model()._replace(where="old.yaml:1:1")), state(a_model()))
    assert diff.is_empty
    assert diff.models == (ModelDiff("chat", Difference.SAME),)


def test_models_come_in_the_order_of_the_new_file_and_then_those_that_went() -> None:
    diff = diff_states(state(a_model("a"), a_model("old")), state(a_model("new"), a_model("a")))
    assert [(model.name, model.difference) for model in diff.models] == [
        ("new", Difference.ADDED),
        ("a", Difference.SAME),
        ("old", Difference.REMOVED),
    ]
    assert (diff.count(Difference.ADDED), diff.is_empty) == (1, False)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        pytest.param(
            {"port": 1}, {"port": 2}, FieldChange("port", 1, 2, forces_replace=True), id="a-field-that-replaces"
        ),
        pytest.param(
            {"labels": {}},
            {"labels": {"a": "b"}},
            FieldChange("labels.a", None, "b", forces_replace=False),
            id="a-label",
        ),
        pytest.param({}, {"replicas": 3}, FieldChange("replicas", 1, 3, forces_replace=False), id="replicas"),
        pytest.param(
            {"env": {"HF_TOKEN": "one"}},
            {"env": {"HF_TOKEN": "two"}},
            FieldChange("env.HF_TOKEN", "(secret)", "(secret)", forces_replace=True),
            id="a-secret-in-the-file-is-not-shown",
        ),
    ],
)
def test_a_changed_field_says_what_it_costs(before: dict, after: dict, change: FieldChange) -> None:
    (model,) = diff_states(state(a_model(**before)), state(a_model(**after))).models
    assert (model.difference, model.changes) == (Difference.CHANGED, (change,))


def test_gpus_of_all_replicas_are_compared() -> None:
    before, after = (a_model(replicas=2, gpus=GpuRequest(ids=ids)) for ids in (("0", "1"), ("0", "2")))
    (model,) = diff_states(state(before), state(after)).models
    assert model.changes == (FieldChange("gpus.ids", ["0", "1"], ["0", "2"], forces_replace=True),)


def test_settings_of_the_node_are_compared() -> None:
    diff = diff_states(state(), state(node=NodeSettings(ports=(8000, 8009), cordon=("3",))))
    assert [(change.field, change.before, change.after) for change in diff.node] == [
        ("cordon", [], ["3"]),
        ("ports", [8000, 8099], [8000, 8009]),
    ]
    assert not diff.is_empty
