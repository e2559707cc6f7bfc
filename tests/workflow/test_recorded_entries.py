"""Records of engines back to the entry that they were made from."""

from __future__ import annotations

import pytest

from llmgw_reconcile.model.desired import DesiredState, ModelSpec
from llmgw_reconcile.model.spec import engines_of
from llmgw_reconcile.statefile.entry import entry_lines, state_text
from llmgw_reconcile.statefile.load import load_state
from llmgw_reconcile.workflow.recorded_entries import RecordedEngine, recorded_entry

HEAD = "version: 1\nmodels:\n  - name: chat\n    model: org/m\n    engine: vllm\n"


def loaded(text: str) -> DesiredState:
    return load_state("-", text.encode(), base="/etc/llmgw", read_file=lambda _: b"x")


def records_of(model: ModelSpec) -> list[RecordedEngine]:
    return [RecordedEngine(spec.replica, spec.document, spec.bookkeeping) for spec in engines_of(model)]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param("", id="nothing-but-what-it-needs"),
        pytest.param("    replicas: 3\n    port: 8000\n    tensor_parallel_size: 2\n", id="replicas"),
        pytest.param("    replicas: 2\n    gpus: {ids: [3, GPU-a]}\n", id="gpus-of-all-replicas"),
        pytest.param("    gpus: {class: h100-80g}\n    host: 0.0.0.0\n", id="gpus-by-class"),
        pytest.param("    served_model_name: [a, b]\n    device: cpu\n", id="names-and-device"),
        pytest.param("    api_key: {file: /k}\n    env: {A: 1, B: {env: C}}\n", id="secrets-stay-references"),
        pytest.param("    args: [--x, 1, {file: t.jinja}]\n    prefix: [nice]\n", id="files-by-their-path"),
        pytest.param(
            "    readiness: {start_timeout: 1h30m}\n    restart: {policy: never}\n    stop_grace: 90s\n", id="budgets"
        ),
        pytest.param("    protect: true\n    labels: {a: '1'}\n    accept: [fp8-weight-only]\n", id="bookkeeping"),
    ],
)
def test_the_entry_makes_the_same_engines_again(fields: str) -> None:
    (model,) = loaded(HEAD + fields).models
    entry = recorded_entry("chat", records_of(model))
    text = state_text((), {}, [entry_lines(entry.fields, entry.remarks)])
    (again,) = loaded(text).models
    assert records_of(again) == records_of(model)
    assert entry.remarks == {}


def test_what_the_file_left_out_stays_out() -> None:
    (model,) = loaded(HEAD).models
    fields = recorded_entry("chat", records_of(model)).fields
    assert fields == {"name": "chat", "model": "org/m", "engine": "vllm"}


def test_of_replicas_that_differ_the_first_is_shown_and_that_is_said() -> None:
    (model,) = loaded(f"{HEAD}    replicas: 2\n    max_model_len: 1\n").models
    first, second = records_of(model)
    entry = recorded_entry("chat", [second._replace(document=second.document | {"max_model_len": 2}), first])
    assert entry.fields["max_model_len"] == 1
    assert entry.remarks == {"name": "its replicas differ; this is what chat@0 runs as"}


def test_replicas_that_are_not_on_consecutive_ports_differ() -> None:
    (model,) = loaded(f"{HEAD}    replicas: 2\n    port: 8000\n").models
    first, second = records_of(model)
    moved = second._replace(document=second.document | {"port": 9000})
    assert "name" in recorded_entry("chat", [first, moved]).remarks
