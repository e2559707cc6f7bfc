"""Differences of two state files, in words and as JSON."""

from __future__ import annotations

from llmgw_reconcile.plan.actions import FieldChange
from llmgw_reconcile.plan.state_diff import Difference, ModelDiff, StateDiff
from llmgw_reconcile.render.state_diff import state_diff_document, state_diff_text

CHANGES = (
    FieldChange("labels.team", "search", "research", forces_replace=False),
    FieldChange("max_model_len", 16384, 32768, forces_replace=True),
)
DIFF = StateDiff(
    (
        ModelDiff("llama-70b", Difference.CHANGED, CHANGES),
        ModelDiff("embed", Difference.ADDED),
        ModelDiff("qwen", Difference.SAME),
        ModelDiff("old", Difference.REMOVED),
    ),
    (FieldChange("cordon", [], ["3"], forces_replace=False),),
)


def test_each_model_that_differs_is_shown_with_its_fields() -> None:
    assert state_diff_text(DIFF, before="/etc/node.yaml", after="node.yaml") == (
        "From /etc/node.yaml, as it was applied last, to node.yaml\n"
        "\n"
        "  ~ llama-70b\n"
        "      labels.team    search => research\n"
        "      max_model_len  16384 => 32768  # forces replacement\n"
        "  + embed\n"
        "  - old\n"
        "  ~ node\n"
        "      cordon  [] => [3]\n"
        "\n"
        "Models: 1 added, 1 changed, 1 removed, 1 same.\n"
    )


def test_at_forty_columns_no_line_is_longer() -> None:
    text = state_diff_text(DIFF, before="/etc/node.yaml", after="node.yaml", width=40)
    assert max(map(len, text.splitlines())) <= 40
    assert "      max_model_len  16384 => 32768\n        # forces replacement\n" in text


def test_nothing_that_differs_is_one_sentence() -> None:
    same = StateDiff((ModelDiff("a", Difference.SAME),))
    assert state_diff_text(same, before="x", after="y") == "No differences: it asks for what was applied last.\n"


def test_without_a_file_applied_everything_is_new() -> None:
    text = state_diff_text(StateDiff((ModelDiff("a", Difference.ADDED),)), before=None, after="y")
    assert text.startswith("From nothing, since nothing was applied here yet, to y\n\n  + a\n")


def test_colour_marks_signs_and_costs() -> None:
    text = state_diff_text(DIFF, before="x", after="y", color=True)
    assert "\x1b[32m+\x1b[0m \x1b[1membed\x1b[0m" in text
    assert "\x1b[31m# forces replacement\x1b[0m" in text


def test_the_document_has_every_model() -> None:
    document = state_diff_document(DIFF, before=None, after="node.yaml")
    assert (document["format_version"], document["before"], document["after"]) == (1, None, "node.yaml")
    assert [(model["name"], model["difference"]) for model in document["models"]] == [
        ("llama-70b", "changed"),
        ("embed", "added"),
        ("qwen", "same"),
        ("old", "removed"),
    ]
    assert document["models"][0]["changes"][1] == {
        "field": "max_model_len",
        "before": 16384,
        "after": 32768,
        "forces_replace": True,
    }
