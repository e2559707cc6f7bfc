"""The first state file of a node."""

from __future__ import annotations

import pytest

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import Device, EngineKind, ModelSpec
from llmgw_reconcile.statefile.layout import canonical_layout
from llmgw_reconcile.statefile.load import load_state, state_schema
from llmgw_reconcile.validate.file_rules import check_file
from llmgw_reconcile.workflow.engines_here import InstalledEngine
from llmgw_reconcile.workflow.starter import starter_state
from tests.fakes.placed import H100, T4, a_node, gpu

VLLM = InstalledEngine(EngineKind.VLLM, "/opt/vllm/bin/vllm", "0.33.0")
LLAMA = InstalledEngine(EngineKind.LLAMA_CPP, "/usr/bin/llama-server", None)


def models_of(text: str) -> tuple[ModelSpec, ...]:
    """The models of a file that must be valid, and laid out as fmt would."""
    state = load_state("-", text.encode(), base="/")
    assert (state.warnings, check_file(state)) == ((), ())
    assert state.node.name == "gpu-07"
    assert canonical_layout(text.encode(), state_schema()) == text.encode()
    return state.models


def test_it_asks_for_what_the_node_has_on_a_port_that_is_free() -> None:
    node = a_node(gpu(0, T4), gpu(1, H100), gpu(2, H100))
    (model,) = models_of(starter_state(node, [VLLM], busy={8000, 8001}))
    assert (model.engine, model.model, model.port) == (EngineKind.VLLM, "Qwen/Qwen3-8B", 8002)
    assert model.gpus.gpu_class == "h100-80g"


def test_a_small_card_gets_a_small_model() -> None:
    (model,) = models_of(starter_state(a_node(gpu(0, T4)), [VLLM], busy=()))
    assert model.model == "Qwen/Qwen3-0.6B"


def test_a_node_without_gpus_gets_an_engine_for_the_cpu() -> None:
    (model,) = models_of(starter_state(a_node(), [VLLM, LLAMA], busy=()))
    assert (model.engine, model.device, model.gpus_per_replica) == (EngineKind.LLAMA_CPP, Device.CPU, 0)


def test_it_tells_what_was_found() -> None:
    text = starter_state(a_node(gpu(0), gpu(1), driver_version="570.86.15"), [VLLM, LLAMA], busy=())
    assert "#   GPUs          2 x h100-80g\n" in text
    assert "#   vllm          0.33.0, /opt/vllm/bin/vllm\n" in text
    assert "#   sglang        not on PATH; `executable:` names one elsewhere\n" in text
    assert "#   llama-server  version unknown, /usr/bin/llama-server\n" in text


def test_the_fields_that_it_shows_as_comments_are_valid_too() -> None:
    text = starter_state(a_node(gpu(0), gpu(1)), [VLLM], busy=())
    head, _, more = text.partition("    # More that a model may say (`llmgw schema state` lists everything):\n")
    state = load_state("-", (head + more.replace("\n    # ", "\n    ").replace("    # ", "    ", 1)).encode(), base="/")
    (model,) = state.models
    assert (state.warnings, check_file(state)) == ((), ())
    assert (model.tensor_parallel_size, model.replicas, model.labels) == (2, 2, {"team": "search"})


UNREADABLE = a_node(problems=(Diagnostic(Severity.ERROR, "nvidia-smi-failed", "nvidia-smi", "exit code 9"),))


@pytest.mark.parametrize(
    ("node", "engines", "why"),
    [
        pytest.param(a_node(gpu(0)), [], "install an engine first", id="no-engine"),
        pytest.param(UNREADABLE, [VLLM], "the GPUs could not be read", id="no-driver"),
    ],
)
def test_where_nothing_could_start_the_example_is_a_comment(node, engines: list, why: str) -> None:
    text = starter_state(node, engines, busy=())
    assert models_of(text) == ()
    assert f"# An example ({why}):\n# - name: qwen3-" in text
