"""An engine that somebody started by hand, as an entry."""

from __future__ import annotations

import os

import pytest

from llmgw_reconcile.discovery.foreign_engines import ForeignEngine
from llmgw_reconcile.model.gpu import Gpu, Holder
from llmgw_reconcile.workflow.foreign_entries import foreign_entry, with_name

PID = 4121


def an_engine(line: str, folder: str = "/work", **environ: str) -> ForeignEngine:
    return ForeignEngine(PID, "alice", tuple(line.split()), folder, environ, frozenset({PID, PID + 1}))


def cards(*held: int, count: int = 4) -> list[Gpu]:
    """Cards GPU-0 and so on, of which the engine holds memory on some."""
    holder = (Holder(PID + 1, "alice", "VLLM::EngineCore", 70000),)
    return [Gpu(n, f"GPU-{n}", "NVIDIA H100", "h100-80g", holders=holder if n in held else ()) for n in range(count)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("/v/bin/python3 /v/bin/vllm serve m", {"host": "0.0.0.0", "port": 8000}, id="vllm"),
        pytest.param("/v/bin/python3 -m sglang.launch_server --model m", {"port": 30000}, id="sglang"),
        pytest.param("/v/bin/llama-server -m /m.gguf", {"port": 8080}, id="llama-server"),
        pytest.param("/v/bin/vllm serve m --host 10.0.0.7 --port 9000", {"host": "10.0.0.7", "port": 9000}, id="said"),
    ],
)
def test_what_an_engine_does_unasked_is_written_down(line: str, expected: dict) -> None:
    fields = foreign_entry(an_engine(line), []).fields
    assert {name: fields[name] for name in ("host", "port") if name in fields} == expected


@pytest.mark.parametrize(
    ("visible", "held", "gpus"),
    [
        pytest.param({}, [], None, id="nothing-known"),
        pytest.param({}, [2, 3], {"ids": ["GPU-2", "GPU-3"]}, id="those-it-holds-memory-on"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "3,2"}, [2, 3], {"ids": ["GPU-3", "GPU-2"]}, id="in-its-own-order"),
        pytest.param(
            {"CUDA_VISIBLE_DEVICES": "3,2"}, [0, 1], {"ids": [3, 2]}, id="by-index-where-cuda-counts-otherwise"
        ),
        pytest.param({"CUDA_VISIBLE_DEVICES": "1,0"}, [], {"ids": [1, 0]}, id="by-index-where-holders-are-not-known"),
        pytest.param({}, [1], None, id="fewer-than-its-sizes-need"),
    ],
)
def test_its_gpus_are_named(visible: dict[str, str], held: list[int], gpus: dict | None) -> None:
    found = foreign_entry(an_engine("/v/bin/vllm serve m -tp 2", **visible), cards(*held))
    assert found.fields.get("gpus") == gpus


def test_a_bare_program_is_found_on_the_path_that_it_was_started_with(tmp_path) -> None:
    program = tmp_path / "python"
    program.write_text("")
    program.chmod(0o755)
    engine = an_engine("python -m sglang.launch_server --model m", PATH=f"relative:/gone:{tmp_path}")
    assert foreign_entry(engine, []).fields["executable"] == str(program)


def test_a_relative_program_and_model_start_from_its_folder(tmp_path) -> None:
    (tmp_path / "m").mkdir()
    fields = foreign_entry(an_engine("bin/vllm serve m", str(tmp_path)), []).fields
    assert fields["executable"] == os.path.join(tmp_path, "bin/vllm")
    assert fields["model"] == os.path.join(tmp_path, "m")


def test_whose_it_is_and_how_it_becomes_ours_is_said() -> None:
    by_hand = foreign_entry(an_engine("/v/bin/vllm serve m"), [])
    assert by_hand.origin == "vLLM, pid 4121 of alice"
    assert by_hand.remarks == {
        "name": "vLLM, pid 4121 of alice, not started by llmgw: `llmgw apply --adopt` takes it over as it runs"
    }
    by_another = foreign_entry(an_engine("/v/bin/vllm serve m", LLMGW_ENGINE="chat@0"), [])
    assert by_another.remarks["name"].endswith("is chat@0 of another llmgw, which must let go of it first")


def test_a_name_that_clients_use_anyway_is_not_written_twice() -> None:
    assert with_name({"model": "org/m", "served_model_name": "chat"}, []) == {"name": "chat", "model": "org/m"}
    assert with_name({"model": "org/m", "served_model_name": "org/m"}, ["m"]) == {
        "name": "m-2",
        "model": "org/m",
        "served_model_name": "org/m",
    }
