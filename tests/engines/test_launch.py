"""From an entry of the state file to the command line and the environment, written out by hand."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.catalog import default_executable
from llmgw_reconcile.engines.environment import Account
from llmgw_reconcile.engines.launch import derive_launch
from llmgw_reconcile.model.desired import Device, EngineKind, FileArg, Readiness, SecretRef
from llmgw_reconcile.model.launch import Launch, Placement
from tests.fakes.placed import a_placement, gpu

ACCOUNT = Account(user="llm", home="/home/llm", shell="/bin/bash")
KEY = SecretRef("file", "/etc/llmgw/key")
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

VLLM, SGLANG, LLAMA_CPP = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMA_CPP


def launch(placement: Placement) -> Launch:
    return derive_launch(placement, account=ACCOUNT, tmp_dir="/run/t")


def words(placement: Placement) -> str:
    return " ".join(item if isinstance(item, str) else repr(item.as_json) for item in launch(placement).argv)


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        pytest.param(
            a_placement(gpu(0), executable="/opt/v/bin/vllm"),
            "/opt/v/bin/vllm serve org/model --host 127.0.0.1 --port 8000 --served-model-name chat",
            id="vllm-with-nothing-but-what-it-needs",
        ),
        pytest.param(
            a_placement(
                *map(gpu, range(8)),
                executable="/opt/v/bin/vllm",
                name="llama",
                model="/srv/llama",
                revision="main",
                served_model_name=("llama", "llama-3"),
                tensor_parallel_size=4,
                pipeline_parallel_size=2,
                data_parallel_size=1,
                quantization="fp8",
                dtype="bfloat16",
                kv_cache_dtype="fp8_e4m3",
                max_model_len=32768,
                gpu_memory_utilization=0.9,
                host="0.0.0.0",
                args=("--enable-prefix-caching",),
            ),
            "/opt/v/bin/vllm serve /srv/llama --host 0.0.0.0 --port 8000 --served-model-name llama llama-3"
            " --tensor-parallel-size 4 --pipeline-parallel-size 2 --data-parallel-size 1 --revision main"
            " --quantization fp8 --dtype bfloat16 --kv-cache-dtype fp8_e4m3 --max-model-len 32768"
            " --gpu-memory-utilization 0.9 --enable-prefix-caching",
            id="vllm-with-every-field",
        ),
        pytest.param(
            a_placement(gpu(0), executable="/opt/v/bin/python3.12"),
            "/opt/v/bin/python3.12 -m vllm.entrypoints.openai.api_server --model org/model"
            " --host 127.0.0.1 --port 8000 --served-model-name chat",
            id="vllm-as-a-module",
        ),
        pytest.param(
            a_placement(executable="/opt/v/bin/vllm", device=Device.CPU, tensor_parallel_size=2),
            "/opt/v/bin/vllm serve org/model --host 127.0.0.1 --port 8000 --served-model-name chat"
            " --tensor-parallel-size 2",
            id="vllm-on-the-cpu",
        ),
        pytest.param(
            a_placement(gpu(0), executable="/opt/v/bin/vllm", api_key=KEY),
            "/opt/v/bin/vllm serve org/model --host 127.0.0.1 --port 8000 --served-model-name chat",
            id="vllm-gets-its-key-elsewhere",
        ),
        pytest.param(
            a_placement(
                gpu(0),
                executable="/opt/v/bin/vllm",
                prefix=("numactl", "--cpunodebind=0"),
                args=("--chat-template", FileArg("/etc/x.jinja", "sha256:1")),
            ),
            "numactl --cpunodebind=0 /opt/v/bin/vllm serve org/model --host 127.0.0.1 --port 8000"
            " --served-model-name chat --chat-template {'file': '/etc/x.jinja', 'digest': 'sha256:1'}",
            id="prefix-before-and-args-behind",
        ),
        pytest.param(
            a_placement(gpu(0), executable="/opt/s/bin/sglang", engine=SGLANG, port=8001),
            "/opt/s/bin/sglang serve --model-path org/model --host 127.0.0.1 --port 8001 --served-model-name chat",
            id="sglang-with-nothing-but-what-it-needs",
        ),
        pytest.param(
            a_placement(
                *map(gpu, range(8)),
                executable="/opt/s/bin/sglang",
                engine=SGLANG,
                tensor_parallel_size=2,
                pipeline_parallel_size=2,
                data_parallel_size=2,
                revision="main",
                quantization="awq",
                dtype="auto",
                kv_cache_dtype="fp8_e5m2",
                max_model_len=8192,
                gpu_memory_utilization=0.85,
                api_key=KEY,
            ),
            "/opt/s/bin/sglang serve --model-path org/model --host 127.0.0.1 --port 8000 --served-model-name chat"
            " --tp-size 2 --pp-size 2 --dp-size 2 --revision main --quantization awq --dtype auto"
            " --kv-cache-dtype fp8_e5m2 --context-length 8192 --mem-fraction-static 0.85"
            " --api-key {'file': '/etc/llmgw/key'}",
            id="sglang-with-every-field",
        ),
        pytest.param(
            a_placement(executable="python", engine=SGLANG, device=Device.CPU),
            "python -m sglang.launch_server --model-path org/model --host 127.0.0.1 --port 8000"
            " --served-model-name chat --device cpu",
            id="sglang-as-a-module-on-the-cpu",
        ),
        pytest.param(
            a_placement(executable="/opt/l/llama-server", engine=LLAMA_CPP, model="/m/x.gguf", device=Device.CPU),
            "/opt/l/llama-server -m /m/x.gguf --host 127.0.0.1 --port 8000 --alias chat --device none",
            id="llama-server-on-the-cpu",
        ),
        pytest.param(
            a_placement(
                gpu(0),
                gpu(1),
                executable="/opt/l/llama-server",
                engine=LLAMA_CPP,
                model="/m/x.gguf",
                served_model_name=("a", "b"),
                max_model_len=4096,
                tensor_parallel_size=2,
                api_key=KEY,
                args=("--metrics",),
            ),
            "/opt/l/llama-server -m /m/x.gguf --host 127.0.0.1 --port 8000 --alias a,b --split-mode row"
            " --ctx-size 4096 --metrics",
            id="llama-server-split-by-rows",
        ),
        pytest.param(
            a_placement(
                gpu(0),
                gpu(1),
                executable="/opt/l/llama-server",
                engine=LLAMA_CPP,
                model="org/model:Q4_K_M",
                pipeline_parallel_size=2,
            ),
            "/opt/l/llama-server -hf org/model:Q4_K_M --host 127.0.0.1 --port 8000 --alias chat --split-mode layer",
            id="llama-server-split-by-layers-from-the-hub",
        ),
    ],
)
def test_an_entry_of_the_state_file_gives_this_command_line(placement: Placement, expected: str) -> None:
    assert words(placement) == expected


def test_the_environment_of_vllm_is_exactly_this() -> None:
    placement = a_placement(
        gpu(3),
        gpu(1),
        executable="/opt/v/bin/vllm",
        api_key=KEY,
        readiness=Readiness(start_timeout=5400.5),
        env={"HF_TOKEN": SecretRef("env", "MY_TOKEN"), "HF_HUB_OFFLINE": "1"},
        tensor_parallel_size=2,
    )
    assert launch(placement).env == (
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("CUDA_VISIBLE_DEVICES", "GPU-3,GPU-1"),
        ("HF_HUB_OFFLINE", "1"),
        ("HF_TOKEN", SecretRef("env", "MY_TOKEN")),
        ("HOME", "/home/llm"),
        ("LANG", "C.UTF-8"),
        ("LLMGW_ENGINE", "chat@0"),
        ("LOGNAME", "llm"),
        ("PATH", f"/opt/v/bin:{SYSTEM}"),
        ("PYTHONUNBUFFERED", "1"),
        ("SHELL", "/bin/bash"),
        ("TMPDIR", "/run/t"),
        ("USER", "llm"),
        ("VLLM_API_KEY", KEY),
        ("VLLM_ENGINE_READY_TIMEOUT_S", "5401"),
    )


def own_variables(placement: Placement) -> dict[str, object]:
    """Those that differ from engine to engine."""
    everywhere = {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER", "LLMGW_ENGINE", "CUDA_DEVICE_ORDER"}
    return {name: value for name, value in launch(placement).env if name not in everywhere}


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        pytest.param(
            a_placement(gpu(0), engine=SGLANG, api_key=KEY),
            {"CUDA_VISIBLE_DEVICES": "GPU-0", "PYTHONUNBUFFERED": "1", "SGLANG_WARMUP_TIMEOUT": "7200"},
            id="sglang-has-no-variable-for-the-key",
        ),
        pytest.param(
            a_placement(engine=SGLANG, device=Device.CPU),
            {
                "CUDA_VISIBLE_DEVICES": "",
                "PYTHONUNBUFFERED": "1",
                "SGLANG_USE_CPU_ENGINE": "1",
                "SGLANG_WARMUP_TIMEOUT": "7200",
            },
            id="sglang-on-the-cpu-sees-no-gpu",
        ),
        pytest.param(
            a_placement(engine=LLAMA_CPP, device=Device.CPU, api_key=KEY),
            {"CUDA_VISIBLE_DEVICES": "", "LLAMA_API_KEY": KEY},
            id="llama-server-takes-the-key-by-a-variable",
        ),
    ],
)
def test_each_kind_adds_what_it_needs(placement: Placement, expected: dict[str, object]) -> None:
    assert own_variables(placement) == expected


def test_the_file_has_the_last_word_on_what_does_no_harm() -> None:
    env = {"VLLM_ENGINE_READY_TIMEOUT_S": "60", "TMPDIR": "/scratch", "PATH": "/only/here"}
    found = dict(launch(a_placement(gpu(0), env=env)).env)
    assert {name: found[name] for name in env} == env


@pytest.mark.parametrize(
    ("executable", "expected"),
    [
        pytest.param(
            "/usr/bin/vllm",
            "/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin",
            id="a-system-directory-is-named-once",
        ),
        pytest.param("vllm", SYSTEM, id="a-command-that-was-not-found-has-no-directory"),
    ],
)
def test_the_path_begins_with_the_directory_of_the_executable(executable: str, expected: str) -> None:
    assert dict(launch(a_placement(gpu(0), executable=executable)).env)["PATH"] == expected


def test_a_launch_says_how_to_ask_for_readiness() -> None:
    found = launch(a_placement(gpu(0), engine=SGLANG, host="0.0.0.0", port=8011, api_key=KEY))
    assert (found.engine, found.kind, found.gpus, found.host, found.port) == (
        "chat@0",
        SGLANG,
        ("GPU-0",),
        "0.0.0.0",
        8011,
    )
    assert (found.served, found.api_key, found.health_path) == (("chat",), KEY, "/health")


def test_a_probe_outlasts_what_the_engine_itself_grants_its_health() -> None:
    sglang = launch(a_placement(gpu(0), engine=SGLANG))
    vllm = launch(a_placement(gpu(0)))
    assert sglang.probe_timeout > 20.0
    assert vllm.probe_timeout == 5.0
    assert vllm.loading_grace == 5.0


def test_the_same_placement_gives_the_same_launch() -> None:
    one = a_placement(gpu(0), env={"B": "2", "A": "1"})
    other = a_placement(gpu(0), env={"A": "1", "B": "2"})
    assert launch(one) == launch(other)


@pytest.mark.parametrize(
    ("kind", "command"),
    [(VLLM, "vllm"), (SGLANG, "sglang"), (LLAMA_CPP, "llama-server")],
)
def test_each_kind_has_a_usual_command(kind: EngineKind, command: str) -> None:
    assert default_executable(kind) == command
