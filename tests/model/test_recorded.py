"""What a record says comes back as it was."""

from __future__ import annotations

import pytest

from llmgw_reconcile.model.desired import EngineKind, GpuRequest
from llmgw_reconcile.model.recorded import recorded_spec
from tests.fakes.placed import a_spec


@pytest.mark.parametrize(
    ("fields", "recorded"),
    [
        pytest.param({"engine": EngineKind.LLAMA_CPP}, {"count": 2}, id="llama-cpp-is-sized-by-it"),
        pytest.param({"tensor_parallel_size": 2}, None, id="beside-a-size-it-adds-nothing"),
    ],
)
def test_a_count_of_gpus_is_part_of_the_spec_where_it_decides(
    fields: dict[str, object], recorded: dict[str, int] | None
) -> None:
    spec = a_spec(gpus=GpuRequest(count=2), **fields)
    assert spec.document.get("gpus") == recorded
    again = recorded_spec(spec.engine, spec.document, spec.bookkeeping)
    assert (again.model.gpus_per_replica, again.document) == (2, spec.document)
