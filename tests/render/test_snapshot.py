from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import launch_document
from llmgw_reconcile.model.observed import ObservedState, ProcessId
from llmgw_reconcile.plan.diff import diff_documents
from llmgw_reconcile.render.documents import document_text
from llmgw_reconcile.render.snapshot import snapshot_document
from tests.plan.builders import ended, launch, running, spec

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "snapshot.schema.json").read_text())


def snapshot(*engines):
    return snapshot_document(Inventory("gpu-07", "none"), ObservedState(engines=engines), ())


@pytest.mark.parametrize(
    "engines",
    [
        pytest.param((), id="an-empty-node"),
        pytest.param((running(), ended(spec("old"), leftovers=(ProcessId(7, 1),))), id="engines"),
        pytest.param((running(spec=None, bookkeeping=None, launch=None),), id="lost-records"),
    ],
)
def test_it_fits_its_schema(engines):
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(snapshot(*engines), SCHEMA)


def test_it_keeps_the_records_that_a_plan_compares():
    seen = running(spec("chat", max_model_len=4096))
    assert snapshot(seen)["engines"]["chat@0"] == {
        "supervised": True,
        "leftovers": [],
        "spec": seen.spec,
        "bookkeeping": seen.bookkeeping,
        "launch": seen.launch,
    }


def test_digests_of_secrets_stay_behind():
    assert "digest-of-a-secret" not in document_text(
        snapshot(running(secret_digests={"api_key": "digest-of-a-secret"}))
    )


def test_a_literal_named_like_a_secret_stays_behind_too():
    start = launch(spec(), env=(("HF_TOKEN", "canary"), ("LANG", "C.UTF-8")))
    (engine,) = snapshot(running(launch=launch_document(start)))["engines"].values()
    assert engine["launch"]["env"] == {"HF_TOKEN": "(secret)", "LANG": "C.UTF-8"}


def test_a_secret_that_somebody_wrote_into_the_file_stays_behind_and_is_no_change():
    literal = spec(
        args=("--seed", "1", "--api-key", "canary-1"), env={"HF_TOKEN": "canary-2", "X": "http://u:canary-3@h"}
    )
    start = launch(literal, argv=("/bin/vllm", "serve", "m", "--api-key", "canary-1"))
    document = snapshot(running(literal, launch=launch_document(start)))
    assert "canary" not in document_text(document)
    recorded = document["engines"]["chat@0"]["spec"]
    assert recorded["args"] == ["--seed", "1", "--api-key", "(secret)"]
    assert diff_documents(recorded, literal.document, forces_replace=True) == ()
    other = literal.document | {"args": ["--seed", "2", "--api-key", "canary-1"]}
    assert [change.field for change in diff_documents(recorded, other, forces_replace=True)] == ["args.--seed"]
