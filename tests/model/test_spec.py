"""What a model asks for becomes engines, and the documents by which a change is told from none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmgw_reconcile.model.desired import (
    Device,
    EngineKind,
    FileArg,
    GpuRequest,
    ModelSpec,
    Readiness,
    Restart,
    SecretRef,
)
from llmgw_reconcile.model.recorded import recorded_spec
from llmgw_reconcile.model.spec import BOOKKEEPING, engine_id, engines_of, model_of
from tests.fakes.placed import a_model, a_spec

# One value for each field of a model, unlike its default.
FULL: dict[str, Any] = {
    "model": "/models/llama",
    "engine": EngineKind.SGLANG,
    "revision": "5f0b02c7",
    "executable": "/opt/sglang/bin/sglang",
    "prefix": ("numactl", "--cpunodebind=0"),
    "served_model_name": ("chat", "gpt"),
    "tensor_parallel_size": 2,
    "pipeline_parallel_size": 2,
    "data_parallel_size": 1,
    "quantization": "fp8",
    "dtype": "bfloat16",
    "kv_cache_dtype": "fp8_e5m2",
    "max_model_len": 32768,
    "gpu_memory_utilization": 0.85,
    "gpus": GpuRequest("h100-80g", ("GPU-0", "GPU-1", "GPU-2", "GPU-3"), share=True),
    "host": "0.0.0.0",
    "port": 8000,
    "api_key": SecretRef("file", "/etc/llmgw/key"),
    "env": {"HF_TOKEN": SecretRef("env", "TOKEN"), "HF_HOME": "/data"},
    "args": ("--enable-metrics", FileArg("/t.jinja", "sha256:00")),
    "labels": {"team": "search"},
    "protect": True,
    "accept": ("fp8-weight-only",),
    "readiness": Readiness(60.0, 30.0),
    "restart": Restart("never", 1, 60.0),
    "stop_grace": 5.0,
}


def test_an_engine_is_called_by_its_model_and_replica() -> None:
    assert engine_id("llama-70b", 12) == "llama-70b@12"
    assert model_of("llama-70b@12") == "llama-70b"


def test_replicas_take_the_ports_and_the_named_gpus_in_turn() -> None:
    request = GpuRequest(ids=("GPU-0", "GPU-1", "GPU-2", "GPU-3"))
    model = a_model(replicas=2, tensor_parallel_size=2, port=8000, gpus=request)
    engines = engines_of(model)
    assert [(e.engine, e.replica, e.port, e.gpu_ids) for e in engines] == [
        ("chat@0", 0, 8000, ("GPU-0", "GPU-1")),
        ("chat@1", 1, 8001, ("GPU-2", "GPU-3")),
    ]
    assert [engine.document["gpus"]["ids"] for engine in engines] == [["GPU-0", "GPU-1"], ["GPU-2", "GPU-3"]]


def test_no_replicas_are_no_engines() -> None:
    assert engines_of(a_model(replicas=0)) == ()


def test_only_what_the_file_says_stands_in_the_document() -> None:
    assert a_spec().document == {"model": "org/model", "engine": "vllm", "served_model_name": ["chat"]}
    assert a_spec(device=Device.CPU).document["device"] == "cpu"


def test_bookkeeping_is_no_part_of_what_replaces_an_engine() -> None:
    plain = a_spec(**FULL)
    changes = {"labels": {}, "protect": False, "accept": (), "readiness": Readiness(), "restart": Restart()}
    other = a_spec(**FULL | changes | {"stop_grace": 60.0, "adopt": True, "update": "surge"})
    assert other.document == plain.document
    assert {field for field in BOOKKEEPING if other.bookkeeping[field] != plain.bookkeeping[field]} >= changes.keys()


@pytest.mark.parametrize("field", sorted(FULL.keys() - {*BOOKKEEPING, "data_parallel_size"}))
def test_every_other_field_changes_the_document(field: str) -> None:
    default = ModelSpec._field_defaults.get(field, "other/model" if field == "model" else EngineKind.VLLM)
    given = FULL | {field: ("other",) if field == "served_model_name" else default}
    assert a_spec(**given).document != a_spec(**FULL).document


def test_the_content_of_a_file_counts_and_a_secret_is_its_reference() -> None:
    document = a_spec(**FULL).document
    assert document["args"][1] == {"file": "/t.jinja", "digest": "sha256:00"}
    assert document["api_key"] == {"file": "/etc/llmgw/key"}
    assert document["env"] == {"HF_HOME": "/data", "HF_TOKEN": {"env": "TOKEN"}}
    assert list(document["env"]) == ["HF_HOME", "HF_TOKEN"]


@pytest.mark.parametrize("fields", [pytest.param({}, id="plain"), pytest.param(FULL, id="full")])
def test_a_record_comes_back_as_it_was(fields: dict[str, Any]) -> None:
    spec = a_spec(replica=3, **fields)
    document, bookkeeping = json.loads(json.dumps([spec.document, spec.bookkeeping]))
    again = recorded_spec(spec.engine, document, bookkeeping)
    assert (again.engine, again.replica, again.port, again.gpu_ids) == (spec.engine, 3, spec.port, spec.gpu_ids)
    assert (again.document, again.bookkeeping) == (spec.document, spec.bookkeeping)
    unlike = {field for field in ModelSpec._fields if getattr(again.model, field) != getattr(spec.model, field)}
    assert unlike <= {"replicas", "port", "gpus", "where", "positions"}  # those are the model's, not one engine's


@pytest.mark.parametrize(
    ("document", "bookkeeping"),
    [
        pytest.param({}, {}, id="empty"),
        pytest.param({"model": "m", "engine": "tgi", "served_model_name": ["m"]}, {}, id="an-unknown-engine"),
        pytest.param({"model": "m", "engine": "vllm", "served_model_name": 7}, {}, id="another-type"),
        pytest.param({"model": "m", "engine": "vllm", "served_model_name": ["m"]}, {"labels": {}}, id="half"),
    ],
)
def test_a_record_that_is_none_is_refused(document: dict[str, Any], bookkeeping: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        recorded_spec("chat@0", document, bookkeeping)
