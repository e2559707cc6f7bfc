from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.observed import ObservedState
from llmgw_reconcile.plan.actions import Action, ActionKind, FieldChange, Plan
from llmgw_reconcile.plan.digest import plan_digest
from llmgw_reconcile.plan.reconcile import reconcile
from llmgw_reconcile.render.documents import document_text
from llmgw_reconcile.render.plan_json import plan_document
from tests.plan.builders import VLLM, blocked, error, gpu, launch, running, spec, wanted, warning

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "plan.schema.json").read_text())
TOKEN = spec("start", api_key=SecretRef("env", "KEY"))
SECRET_LAUNCH = launch(
    TOKEN, gpu(0), argv=(VLLM, "--api-key", SecretRef("env", "KEY")), env=(("T", SecretRef("file", "/t")), ("A", "1"))
)
REASONS = (error("no-executable", "cannot find vllm", "install it"), error("port-taken", "port 8000 is taken"))


def plan():
    observed = ObservedState(
        engines=(
            running(spec("adopt"), gpu(1), supervisor=None),
            running(spec("keep"), launch={"argv": ["/old/vllm", "serve", "org/llama", "--port", "8000"]}),
            running(spec("old")),
            running(spec("replace", max_model_len=4096)),
            running(spec("update")),
        )
    )
    wants = [
        blocked(spec("gone"), *REASONS),
        wanted(TOKEN, gpu(0), launch=SECRET_LAUNCH),
        wanted(spec("replace", max_model_len=8192)),
        wanted(spec("update", protect=True)),
        wanted(spec("keep")),
        wanted(spec("adopt"), gpu(1)),
    ]
    actions = reconcile(wants, observed, [gpu(0), gpu(1)])
    found = (warning("memlock", "the limit is 64 KiB", where="gpu-07"), REASONS[0])
    return Plan("gpu-07", "node.yaml", actions, found, plan_digest("gpu-07", actions))


def test_a_plan_with_every_action_fits_the_schema():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(plan_document(plan()), SCHEMA)


def test_the_summary_counts_every_kind():
    counts = {"stop": 1, "adopt": 1, "update": 1, "start": 1, "replace": 1, "keep": 1, "blocked": 1}
    assert plan_document(plan())["summary"] == counts
    assert plan_document(Plan("n", "s", ()))["summary"] == dict.fromkeys(counts, 0)


def test_a_start_in_full_with_secrets_masked():
    (start,) = [action for action in plan_document(plan())["actions"] if action["action"] == "start"]
    assert start == {
        "action": "start",
        "engine": "start@0",
        "reason": "not running",
        "changes": [],
        "at_next_start": [],
        "gpus": ["GPU-0"],
        "port": 8000,
        "command": ["/opt/vllm/bin/vllm", "--api-key", "(secret)"],
        "environment": {"T": "(secret)", "A": "1"},
    }


def test_a_replacement_lists_its_changes():
    (replace,) = [action for action in plan_document(plan())["actions"] if action["action"] == "replace"]
    assert replace["changes"] == [{"field": "max_model_len", "before": 4096, "after": 8192, "forces_replace": True}]


def test_a_note_for_the_next_start_stands_apart():
    (keep,) = [action for action in plan_document(plan())["actions"] if action["action"] == "keep"]
    assert keep["changes"] == []
    assert keep["at_next_start"][0] == {
        "field": "env.CUDA_VISIBLE_DEVICES",
        "before": None,
        "after": "",
        "forces_replace": False,
    }


def test_a_blocked_engine_has_every_reason_in_words_and_as_diagnostics():
    document = plan_document(plan())
    (gone,) = [action for action in document["actions"] if action["action"] == "blocked"]
    assert gone["reason"] == "it cannot be started here: cannot find vllm; port 8000 is taken"
    assert [(d["code"], d["severity"], d["hint"]) for d in document["diagnostics"]] == [
        ("memlock", "warning", ""),
        ("no-executable", "error", "install it"),
        ("port-taken", "error", ""),
    ]


def test_the_same_plan_gives_the_same_bytes():
    assert document_text(plan_document(plan())) == document_text(plan_document(plan()))


def test_text_is_ascii_json_with_a_newline():
    text = document_text({"b": "é\x1b", "a": [1, None]})
    assert text == '{\n  "b": "\\u00e9\\u001b",\n  "a": [\n    1,\n    null\n  ]\n}\n'


def test_no_number_that_json_lacks_is_written():
    change = FieldChange("gpu_memory_utilization", 0.9, float("nan"), forces_replace=True)
    document = plan_document(Plan("n", "s", (Action(ActionKind.REPLACE, "chat@0", "", changes=(change,)),)))
    with pytest.raises(ValueError, match="nan"):
        document_text(document)


def test_the_canary_is_in_no_document():
    of = spec(env={"HF_TOKEN": "canary-1"}, args=("--api-key", "canary-2"))
    want = wanted(of, launch=launch(of, argv=(VLLM, "--api-key", "canary-2"), env=(("HF_TOKEN", "canary-1"),)))
    for engines in ((), (running(),), (running(of),)):
        actions = reconcile([want], ObservedState(engines=engines))
        assert "canary" not in document_text(plan_document(Plan("n", "s", actions)))
