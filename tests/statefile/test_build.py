import pytest

from llmgw_reconcile.model.desired import (
    Device,
    EngineKind,
    FabricChoice,
    FileArg,
    GpuRequest,
    GroupNode,
    Liveness,
    NodeSettings,
    Readiness,
    Restart,
    SecretRef,
)
from llmgw_reconcile.statefile.build import seconds
from tests.statefile.states import HEAD, loaded, with_field

WHOLE = """\
version: 1
node:
  name: gpu-07
  ports: 9000-9099
  cordon: [GPU-5f3c2a10, 3]
  held_above_mb: 512
  fabric: auto
models:
  - name: llama-70b
    model: meta-llama/Llama-3.3-70B-Instruct
    revision: 5f0b02c7
    engine: sglang
    executable: /opt/sglang/bin/python
    prefix: [numactl, --cpunodebind=0]
    device: cuda
    served_model_name: [llama, llama-70b]
    replicas: 2
    tensor_parallel_size: 4
    pipeline_parallel_size: 1
    data_parallel_size: 1
    nodes: [gpu-07]
    quantization: fp8
    dtype: auto
    kv_cache_dtype: fp8_e5m2
    max_model_len: 32768
    gpu_memory_utilization: 0.9
    gpus: {class: h100-80g, ids: [GPU-5f3c2a10, 0000:1b:00.0, 3, "4"], share: false}
    host: 0.0.0.0
    port: 8000
    api_key: {file: keys/llama}
    env: {HF_HUB_OFFLINE: 1, RATIO: 1.0, ANSWER: yes, NOTHING: null, EMPTY: "", HF_TOKEN: {env: MY_TOKEN}}
    args: [--flag, 1.0, 0x10, true, {file: ./templates/x.jinja}]
    readiness: {start_timeout: 1h30m, silence_timeout: 90s, generate: false}
    restart: {policy: never, max_restarts: 2, reset_after: 1h}
    liveness: {failures: 3}
    stop_grace: 2m
    update: recreate
    adopt: false
    protect: true
    accept: [does-not-fit]
    labels: {team: search}
"""


def model(text, **options):
    (found,) = loaded(text, **options).models
    return found


def test_every_field_of_the_file_becomes_a_value():
    found = model(WHOLE, read_file=lambda path: b"")
    assert found._replace(positions={}) == (
        "llama-70b",
        "meta-llama/Llama-3.3-70B-Instruct",
        EngineKind.SGLANG,
        "5f0b02c7",
        "/opt/sglang/bin/python",
        None,
        ("numactl", "--cpunodebind=0"),
        None,
        Device.CUDA,
        ("llama", "llama-70b"),
        2,
        4,
        1,
        1,
        (GroupNode("gpu-07", "gpu-07"),),
        "fp8",
        "auto",
        "fp8_e5m2",
        32768,
        0.9,
        GpuRequest("h100-80g", ("GPU-5f3c2a10", "0000:1b:00.0", "3", "4"), None, share=False),
        "0.0.0.0",
        8000,
        SecretRef("file", "/etc/llmgw/keys/llama"),
        {
            "HF_HUB_OFFLINE": "1",
            "RATIO": "1.0",
            "ANSWER": "yes",
            "NOTHING": "null",
            "EMPTY": "",
            "HF_TOKEN": SecretRef("env", "MY_TOKEN"),
        },
        (
            "--flag",
            "1.0",
            "0x10",
            "true",
            FileArg(
                "/etc/llmgw/templates/x.jinja",
                "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
        ),
        Readiness(5400.0, 90.0, generate=False),
        Restart("never", 2, 3600.0),
        Liveness(3),
        120.0,
        "recreate",
        False,
        True,
        ("does-not-fit",),
        {"team": "search"},
        "node.yaml:9:5",
        {},
        (),
    )


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        pytest.param("[--config, /etc/vllm.yaml]", ["/etc/vllm.yaml"], id="two-words"),
        pytest.param("[--config=/etc/vllm.yaml, --seed, 1]", ["/etc/vllm.yaml"], id="one-word"),
        pytest.param("[--config, {file: ./vllm.yaml}]", [], id="copied-anyway"),
        pytest.param("[--config, vllm.yaml]", [], id="not-absolute"),
        pytest.param("[--seed, --config]", [], id="nothing-behind-it"),
        pytest.param("[--config-format, /etc/vllm.yaml]", [], id="another-flag"),
    ],
)
def test_a_file_of_settings_is_known_by_its_content(args, paths):
    found = model(with_field(f"args: {args}"), read_file=lambda path: b"port: 1\n").config_files
    assert [file.path for file in found] == paths
    assert {file.digest for file in found} <= {
        "sha256:854e00f83420ae39530b0f44de6273fa6d71a00796233a6181de22daa3eacf4a"
    }


def test_the_node_block_becomes_node_settings():
    assert loaded(WHOLE, read_file=lambda path: b"").node == NodeSettings(
        "gpu-07", (9000, 9099), ("GPU-5f3c2a10", "3"), 512
    )
    assert loaded(HEAD).node == NodeSettings(None, (8000, 8099), (), 1024)


def test_an_absent_field_stays_absent():
    found = model(HEAD)
    assert (found.port, found.tensor_parallel_size, found.dtype, found.host, found.executable) == (None,) * 5
    assert (found.env, found.args, found.labels, found.accept, found.gpus.ids) == ({}, (), {}, (), ())


def test_a_model_is_served_under_its_own_name_unless_it_says_otherwise():
    assert model(HEAD).served_model_name == ("chat",)
    assert model(with_field("served_model_name: talk")).served_model_name == ("talk",)


@pytest.mark.parametrize(
    ("default", "own", "field", "value"),
    [
        pytest.param("port: 8000", "port: 9000", "port", 9000, id="scalar-replaced"),
        pytest.param("port: 8000", "host: 0.0.0.0", "port", 8000, id="scalar-inherited"),
        pytest.param("args: [--a, --b]", "args: [--c]", "args", ("--c",), id="list-replaced"),
        pytest.param("args: [--a, --b]", "args: []", "args", (), id="list-emptied"),
        pytest.param(
            "env: {A: 1, B: 2}", "env: {B: 3, C: 4}", "env", {"A": "1", "B": "3", "C": "4"}, id="mapping-merged"
        ),
        pytest.param(
            "env: {A: {env: X}}", "env: {A: {file: /k}}", "env", {"A": SecretRef("file", "/k")}, id="reference-replaced"
        ),
        pytest.param(
            "api_key: {env: X}", "api_key: {file: /k}", "api_key", SecretRef("file", "/k"), id="key-reference-replaced"
        ),
        pytest.param(
            "gpus: {class: h100-80g}", "gpus: {ids: [0]}", "gpus", GpuRequest("h100-80g", ("0",)), id="gpus-merged"
        ),
        pytest.param(
            "restart: {policy: never}",
            "restart: {max_restarts: 9}",
            "restart",
            Restart("never", 9, 600.0),
            id="restart-merged",
        ),
        pytest.param("labels: {a: x}", "labels: {b: z}", "labels", {"a": "x", "b": "z"}, id="labels-merged"),
    ],
)
def test_defaults_are_merged_key_by_key_and_replaced_value_by_value(default, own, field, value):
    found = model(f"defaults: {{{default}}}\n{with_field(own)}")
    assert getattr(found, field) == value


def test_model_and_engine_may_come_from_the_defaults():
    found = model("version: 1\ndefaults: {engine: llama-cpp, model: acme/tiny}\nmodels: [{name: a}]\n")
    assert (found.engine, found.model) == (EngineKind.LLAMA_CPP, "acme/tiny")


def test_positions_lead_to_each_field_and_what_is_below_it():
    found = model(HEAD + "    gpus:\n      class: h100-80g\n    args: [--a, --b]\n    env: {A: 1}\n")
    assert found.where == "node.yaml:3:5"
    assert found.positions == {
        "name": "node.yaml:3:11",
        "model": "node.yaml:4:12",
        "engine": "node.yaml:5:13",
        "gpus": "node.yaml:7:7",
        "gpus.class": "node.yaml:7:14",
        "args": "node.yaml:8:11",
        "args[0]": "node.yaml:8:12",
        "args[1]": "node.yaml:8:17",
        "env": "node.yaml:9:10",
        "env.A": "node.yaml:9:14",
    }


def test_a_field_from_the_defaults_has_the_place_of_its_entry():
    assert model(f"defaults: {{port: 8000}}\n{HEAD}").position("port") == "node.yaml:4:5"


@pytest.mark.parametrize(
    ("path", "absolute"),
    [("/etc/key", "/etc/key"), ("key", "/etc/llmgw/key"), ("../key", "/etc/key"), ("./a/../key", "/etc/llmgw/key")],
)
def test_files_are_found_from_the_state_file(path, absolute):
    assert model(with_field(f"api_key: {{file: {path}}}")).api_key == SecretRef("file", absolute)


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("2h0m5s", 7205.0), ("0s", 0.0)]
)
def test_durations_become_seconds(text, value):
    assert seconds(text) == value


def test_nodes_are_names_or_names_with_an_address():
    found = model(with_field("nodes: [gpu-07, {name: gpu-08, address: 10.0.0.8}]"))
    assert found.nodes == (GroupNode("gpu-07", "gpu-07"), GroupNode("gpu-08", "10.0.0.8"))


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [
        ("auto", FabricChoice()),
        ("none", FabricChoice(use_rdma=False)),
        ("{socket_interface: bond0}", FabricChoice(socket_interface="bond0")),
        (
            '{hcas: ["mlx5_0:1", mlx5_3], socket_interface: bond0, rails: isolated}',
            FabricChoice(hcas=("mlx5_0:1", "mlx5_3"), socket_interface="bond0", rails="isolated"),
        ),
    ],
)
def test_the_fabric_of_the_node_is_found_left_out_or_named(fabric, expected):
    assert loaded(f"node: {{fabric: {fabric}}}\n{HEAD}").node.fabric == expected
