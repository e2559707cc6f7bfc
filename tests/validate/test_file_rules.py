"""What is wrong with a state file in itself: found without a node, all at once, at the line that has to change."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.desired import (
    DesiredState,
    Device,
    EngineKind,
    GpuRequest,
    GroupNode,
    ModelSpec,
    NodeSettings,
    SecretRef,
)
from llmgw_reconcile.validate.file_rules import check_file
from tests.fakes.placed import a_model

SGLANG, LLAMA_CPP = EngineKind.SGLANG, EngineKind.LLAMA_CPP
A_AND_B = (GroupNode("a", "a"), GroupNode("b", "b"))


def found(*models: ModelSpec, **node: Any) -> list[tuple[Severity, str, str, str]]:
    state = DesiredState(source="node.yaml", models=models, node=NodeSettings(**node))
    return [(d.severity, d.code, d.where, d.message) for d in check_file(state)]


def errors(*models: ModelSpec, **node: Any) -> list[tuple[str, str]]:
    return [(code, message) for severity, code, _, message in found(*models, **node) if severity is Severity.ERROR]


def test_an_ordinary_file_is_fine() -> None:
    a = a_model("a", port=8000, replicas=2, tensor_parallel_size=2, gpus=GpuRequest(ids=("0", "1", "2", "3")))
    b = a_model("b", port=8002, env={"HF_HOME": "/srv/hf"}, args=("--enable-prefix-caching",))
    assert found(a, b, a_model("c", engine=SGLANG), a_model("d", engine=LLAMA_CPP, device=Device.CPU)) == []


# ---- ports ----


def test_two_models_on_one_port_are_both_named() -> None:
    a = a_model("a", port=18000, positions={"port": "node.yaml:6:11"})
    b = a_model("b", port=18000, positions={"port": "node.yaml:12:11"})
    assert found(a, b) == [
        (
            Severity.ERROR,
            "port-twice",
            "node.yaml:12:11",
            "b: b@0 would listen on port 18000, as a@0 does (node.yaml:6:11)",
        )
    ]


def test_the_ports_of_all_replicas_count_and_two_models_are_told_of_once() -> None:
    a, b = a_model("a", port=8000, replicas=4), a_model("b", port=8002, replicas=4)
    assert errors(a, b) == [("port-twice", "b: b@0 would listen on port 8002, as a@2 does (node.yaml:3:5)")]


def test_a_parked_model_has_no_port() -> None:
    assert errors(a_model("a", port=8000, replicas=0), a_model("b", port=8000)) == []


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param(a_model(port=32767), [], id="the-last-port-below-the-range"),
        pytest.param(
            a_model(port=32768),
            ["chat: port 32768: not below the ephemeral range, 32768-60999"],
            id="the-first-port-of-the-range",
        ),
        pytest.param(
            a_model(port=32766, replicas=3),
            ["chat: ports 32766-32768 of 3 replicas: not below the ephemeral range, 32768-60999"],
            id="a-replica-reaches-into-the-range",
        ),
    ],
)
def test_ports_stay_below_the_ephemeral_range(model: ModelSpec, expected: list[str]) -> None:
    assert [message for _, message in errors(model)] == expected


def test_the_range_of_the_node_stays_below_the_ephemeral_range_too() -> None:
    assert errors(ports=(32000, 33000)) == [
        ("ephemeral-port", "node.ports: 32000-33000: not below the ephemeral range, 32768-60999")
    ]


# ---- sizes ----


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"ids": ("0", "1", "2")}, "gpus.ids names 3 GPUs, needed: 1 GPU", id="no-size-given"),
        pytest.param(
            {"ids": ("0",), "tensor_parallel_size": 2},
            "gpus.ids names 1 GPU, needed: tensor_parallel_size 2 = 2 GPUs",
            id="one-size",
        ),
        pytest.param(
            {"ids": ("0",), "replicas": 2, "tensor_parallel_size": 2, "pipeline_parallel_size": 3},
            ("gpus.ids names 1 GPU, needed: 2 replicas x tensor_parallel_size 2 x pipeline_parallel_size 3 = 12 GPUs"),
            id="several-sizes-and-replicas",
        ),
        pytest.param(
            {"ids": ("0",), "tensor_parallel_size": 16, "nodes": A_AND_B},
            "gpus.ids names 1 GPU, needed: tensor_parallel_size 16 / 2 nodes = 8 GPUs",
            id="a-group-of-nodes",
        ),
    ],
)
def test_named_gpus_must_be_as_many_as_the_sizes_come_to(fields: dict[str, Any], expected: str) -> None:
    request = GpuRequest(ids=fields.pop("ids"))
    assert errors(a_model(gpus=request, **fields)) == [("sizes-do-not-add-up", f"chat: {expected}")]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"count": 2}, "gpus.count is 2, and no size given = 1 GPU", id="no-size-given"),
        pytest.param(
            {"count": 2, "tensor_parallel_size": 4}, "gpus.count is 2, and tensor_parallel_size 4 = 4 GPUs", id="a-size"
        ),
        pytest.param(
            {"count": 16, "tensor_parallel_size": 16, "nodes": A_AND_B},
            "gpus.count is 16, and tensor_parallel_size 16 / 2 nodes = 8 GPUs",
            id="a-group-of-nodes",
        ),
        pytest.param(
            {"count": 3, "pipeline_parallel_size": 2, "engine": EngineKind.LLAMA_CPP, "model": "/models/m.gguf"},
            "gpus.count is 3, and pipeline_parallel_size 2 = 2 GPUs",
            id="llama-cpp-with-a-size",
        ),
    ],
)
def test_a_count_of_gpus_agrees_with_the_sizes(fields: dict[str, Any], expected: str) -> None:
    request = GpuRequest(count=fields.pop("count"))
    assert errors(a_model(gpus=request, **fields)) == [("sizes-do-not-add-up", f"chat: {expected}")]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"tensor_parallel_size": 2}, id="as-the-size"),
        pytest.param({"engine": EngineKind.LLAMA_CPP, "model": "/models/m.gguf"}, id="llama-cpp-without-sizes"),
    ],
)
def test_a_count_says_how_many_gpus_one_replica_needs(fields: dict[str, Any]) -> None:
    model = a_model(gpus=GpuRequest(count=2), **fields)
    assert (errors(model), model.gpus_per_replica) == ([], 2)


def test_a_parked_model_may_keep_its_list_of_gpus() -> None:
    assert errors(a_model(replicas=0, gpus=GpuRequest(ids=("0", "1", "2")))) == []


def test_a_group_of_nodes_shares_its_gpus_evenly() -> None:
    assert errors(a_model(tensor_parallel_size=15, nodes=A_AND_B)) == [
        ("sizes-do-not-add-up", "chat: tensor_parallel_size 15 = 15 GPUs, which 2 nodes cannot share evenly")
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"data_parallel_size": 3, "tensor_parallel_size": 4},
            "data_parallel_size: vLLM: a copy of 4 GPUs neither divides the 6 of a node nor spans whole nodes",
            id="copies-that-straddle-nodes",
        ),
        pytest.param(
            {"args": ("--distributed-executor-backend=ray",)},
            ("args: vLLM: --distributed-executor-backend ray: it runs over several nodes by multiprocessing only"),
            id="vllm-with-ray",
        ),
        pytest.param(
            {"args": ("--api-server-count", "4")},
            "args: vLLM: --api-server-count: its nodes without an API refuse it",
            id="vllm-with-several-api-servers",
        ),
        pytest.param(
            {"engine": SGLANG, "data_parallel_size": 2},
            "data_parallel_size: SGLang: it has no copies of a model over several nodes",
            id="sglang-with-copies",
        ),
        pytest.param(
            {"engine": SGLANG, "args": ("--use-ray",)},
            "args: SGLang: --use-ray: then Ray starts its nodes, and not llmgw",
            id="sglang-with-ray",
        ),
        pytest.param({"engine": LLAMA_CPP}, "nodes: llama-server: it runs on one node", id="llama-server"),
    ],
)
def test_what_an_engine_cannot_do_over_several_nodes_is_refused(fields: dict[str, Any], message: str) -> None:
    size = {"pipeline_parallel_size": 2} if fields.get("engine") is LLAMA_CPP else {"tensor_parallel_size": 2}
    assert errors(a_model(nodes=A_AND_B, **size | fields)) == [("inexpressible", f"chat: {message}")]
    assert "inexpressible" not in [code for code, _ in errors(a_model(nodes=A_AND_B[:1], **size | fields))]


@pytest.mark.parametrize(
    ("nodes", "refused"),
    [
        pytest.param(A_AND_B, [], id="two-nodes"),
        pytest.param((GroupNode("a", "10.0.0.1"), GroupNode("b", "10.0.0.2")), [], id="with-addresses"),
        pytest.param((GroupNode("gpu-1", "x"), GroupNode("GPU-1", "y")), [1], id="one-name-twice"),
        pytest.param((GroupNode("a", "10.0.0.1"), GroupNode("b", "10.0.0.1")), [1], id="one-address-twice"),
        pytest.param((*A_AND_B, GroupNode("c", "A"), GroupNode("b", "d")), [2, 3], id="each-is-told"),
    ],
)
def test_each_node_of_a_group_has_one_rank(nodes: tuple[GroupNode, ...], refused: list[int]) -> None:
    told = [message for code, message in errors(a_model(tensor_parallel_size=12, nodes=nodes)) if code == "node-twice"]
    assert [message.partition(",")[0] for message in told] == [
        f"chat: nodes: {nodes[rank].name} is rank {rank}" for rank in refused
    ]


@pytest.mark.parametrize("args", [("--master-port", "29501"), ("-n", "2"), ("--node_rank=0",), ("--headless",)])
def test_llmgw_alone_says_how_the_nodes_of_a_group_meet(args: tuple[str, ...]) -> None:
    assert [code for code, _ in errors(a_model(args=args, tensor_parallel_size=2, nodes=A_AND_B))] == ["clashing-flag"]
    assert errors(a_model(args=args, nodes=A_AND_B[:1])) == []
    assert errors(a_model(args=args)) == []


def test_a_gpu_is_named_once_in_the_whole_file_however_it_is_spelled() -> None:
    a = a_model("a", gpus=GpuRequest(ids=("0000:3b:00.0",)), positions={"gpus.ids": "node.yaml:7:9"})
    b = a_model("b", gpus=GpuRequest(ids=("00000000:3B:00.0",)), positions={"gpus": "node.yaml:13:5"})
    c = a_model("c", tensor_parallel_size=2, gpus=GpuRequest(ids=("GPU-1", "gpu-1")))
    assert found(a, b, c) == [
        (
            Severity.ERROR,
            "gpu-twice",
            "node.yaml:13:5",
            "b: gpus.ids: GPU 00000000:3B:00.0 is named by a already (node.yaml:7:9)",
        ),
        (
            Severity.ERROR,
            "gpu-twice",
            "node.yaml:3:5",
            "c: gpus.ids: GPU gpu-1 is named by c already (node.yaml:3:5)",
        ),
    ]


# ---- args and env ----


def test_a_planned_flag_in_args_is_refused_where_it_stands_without_its_value() -> None:
    positions = {"args": "node.yaml:9:5", "args[1]": "node.yaml:9:20"}
    model = a_model(args=("--enforce-eager", "--port=9"), positions=positions)
    assert found(model) == [
        (Severity.ERROR, "clashing-flag", "node.yaml:9:20", "chat: args: --port says what `port` says")
    ]
    assert all("s3cret" not in str(d) for d in found(a_model(args=("--api-key=s3cret", "--hf-token", "s3cret"))))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            a_model(env={"CUDA_VISIBLE_DEVICES": "7"}),
            "chat: CUDA_VISIBLE_DEVICES is set from the GPUs that llmgw gives",
        ),
        (
            a_model(env={"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}),
            "chat: CUDA_DEVICE_ORDER is set from the GPUs that llmgw gives",
        ),
        (a_model(env={"LLMGW_ENGINE": "x"}), "chat: LLMGW_ENGINE: names with LLMGW_ are llmgw's own"),
        (a_model(env={"VLLM_API_KEY": SecretRef("env", "K")}), "chat: VLLM_API_KEY says what `api_key` says"),
        (a_model(engine=LLAMA_CPP, env={"LLAMA_ARG_PORT": "9"}), "chat: LLAMA_ARG_PORT says what `port` says"),
    ],
)
def test_a_variable_that_llmgw_plans_is_refused(model: ModelSpec, message: str) -> None:
    assert errors(model) == [("clashing-variable", message)]


def test_other_variables_pass() -> None:
    assert errors(a_model(env={"VLLM_PORT": "29000", "VLLM_ENGINE_READY_TIMEOUT_S": "60", "PATH": "/x"})) == []


# ---- what an engine cannot express ----


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"engine": SGLANG, "served_model_name": ("a", "b")},
            "served_model_name: SGLang: it serves one name, not a, b",
        ),
        ({"engine": SGLANG, "kv_cache_dtype": "fp8"}, "kv_cache_dtype: SGLang: it has no plain fp8"),
        ({"engine": LLAMA_CPP, "quantization": "awq"}, "quantization: llama-server: it has no words for awq"),
        ({"engine": LLAMA_CPP, "dtype": "auto"}, "dtype: llama-server: it has no words for auto"),
        ({"engine": LLAMA_CPP, "revision": "main"}, "revision: llama-server: it has no words for main"),
        ({"engine": LLAMA_CPP, "kv_cache_dtype": "q8_0"}, "kv_cache_dtype: llama-server: it has no words for q8_0"),
        (
            {"engine": LLAMA_CPP, "gpu_memory_utilization": 0.9},
            "gpu_memory_utilization: llama-server: it has no words for 0.9",
        ),
        (
            {"engine": LLAMA_CPP, "data_parallel_size": 2},
            "data_parallel_size: llama-server: it has no data parallelism",
        ),
        (
            {"engine": LLAMA_CPP, "tensor_parallel_size": 2, "pipeline_parallel_size": 2},
            "pipeline_parallel_size: llama-server: it splits a model by rows or by layers",
        ),
        (
            {"engine": LLAMA_CPP, "device": Device.CPU, "tensor_parallel_size": 2},
            "tensor_parallel_size: llama-server: on the CPU it has nothing to split over",
        ),
        (
            {"engine": LLAMA_CPP, "served_model_name": ("a,b",)},
            "served_model_name: llama-server: it splits a,b at the comma",
        ),
    ],
)
def test_a_field_that_the_engine_has_no_words_for_is_refused(fields: dict[str, Any], message: str) -> None:
    assert errors(a_model(**fields)) == [("inexpressible", f"chat: {message}")]


def test_such_a_refusal_names_the_way_round() -> None:
    state = DesiredState("node.yaml", (a_model(engine=LLAMA_CPP, data_parallel_size=2),))
    assert [d.hint for d in check_file(state)] == ["write `replicas`"]


def test_sizes_of_one_are_no_split() -> None:
    assert errors(a_model(engine=LLAMA_CPP, tensor_parallel_size=1, data_parallel_size=1)) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"gpus": GpuRequest(gpu_class="h100-80g")}, [("cpu-with-gpus", "chat: gpus: an engine on the CPU gets none")]),
        ({"gpus": GpuRequest(ids=("0",))}, [("cpu-with-gpus", "chat: gpus: an engine on the CPU gets none")]),
        ({"quantization": "fp8"}, [("cpu-without-fp8", "chat: quantization: vLLM has no fp8 on the CPU")]),
        ({"engine": SGLANG, "quantization": "fp8"}, []),
        ({"tensor_parallel_size": 2}, []),
    ],
)
def test_an_engine_on_the_cpu_asks_for_no_gpu(fields: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert errors(a_model(device=Device.CPU, **fields)) == expected


# ---- secrets ----


def test_a_key_that_only_the_command_line_takes_is_a_warning() -> None:
    key = SecretRef("file", "/etc/llmgw/key")
    assert found(a_model(engine=SGLANG, api_key=key)) == [
        (
            Severity.WARNING,
            "key-on-command-line",
            "node.yaml:3:5",
            "chat: api_key: SGLang takes its key on the command line only, where every user of the node reads it",
        )
    ]
    assert found(a_model(api_key=key), a_model("b", engine=LLAMA_CPP, api_key=key)) == []


def test_all_that_is_wrong_is_told_at_once() -> None:
    a = a_model("a", port=40000, args=("--port", "1"), env={"LLMGW_X": "1"})
    b = a_model("b", port=40000, engine=LLAMA_CPP, dtype="half")
    assert [code for code, _ in errors(a, b)] == [
        "clashing-flag",
        "clashing-variable",
        "inexpressible",
        "ephemeral-port",
        "ephemeral-port",
        "port-twice",
    ]
