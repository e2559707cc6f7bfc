"""A command line back to the fields of an entry."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.program import program_in
from llmgw_reconcile.engines.reading import Place, Reading, read_command
from llmgw_reconcile.engines.shell_words import shell_command
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.model.desired import Device, EngineKind
from tests.fakes.placed import a_placement, gpu

THERE = {"/srv/models/local", "/srv/t.jinja", "/srv/conf/e.yaml"}
HERE = Place(lambda path: posixpath.normpath(posixpath.join("/srv", path)), THERE.__contains__)


def read(line: str) -> Reading:
    command = shell_command(line, home="/home/me")
    return read_command(program_in(command.words), command.variables, HERE)


def fields_of(line: str) -> dict:
    return read(line).fields


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            "vllm serve org/m -tp 4 -pp=2 --data-parallel-size 1 --max_model_len=32k --gpu-mem 0.9 -qfp8 --dtype auto",
            {
                "engine": "vllm",
                "model": "org/m",
                "served_model_name": "org/m",
                "tensor_parallel_size": 4,
                "pipeline_parallel_size": 2,
                "data_parallel_size": 1,
                "max_model_len": 32000,
                "gpu_memory_utilization": 0.9,
                "quantization": "fp8",
                "dtype": "auto",
            },
            id="vllm-in-every-spelling",
        ),
        pytest.param(
            "python3 -m vllm.entrypoints.openai.api_server --served-model-name a b --model org/m --port 8000",
            {
                "engine": "vllm",
                "executable": "python3",
                "served_model_name": ["a", "b"],
                "model": "org/m",
                "port": 8000,
            },
            id="vllm-as-a-module-with-two-names",
        ),
        pytest.param(
            "vllm serve --port 8000 org/m --enable-x --rope '{\"f\": 2}'",
            {
                "engine": "vllm",
                "port": 8000,
                "model": "org/m",
                "served_model_name": "org/m",
                "args": ["--enable-x", "--rope", '{"f": 2}'],
            },
            id="the-model-behind-a-flag-and-the-rest-in-args",
        ),
        pytest.param(
            "python -m sglang.launch_server --model org/m --tp 2 --context-length 8Ki --mem-fraction .8 --device cuda",
            {
                "engine": "sglang",
                "executable": "python",
                "model": "org/m",
                "served_model_name": "org/m",
                "tensor_parallel_size": 2,
                "max_model_len": 8192,
                "gpu_memory_utilization": 0.8,
            },
            id="sglang",
        ),
        pytest.param(
            "llama-server -m tiny.gguf -a tiny,small -c 4096 -ngl 99 --device none",
            {
                "engine": "llama-cpp",
                "model": "/srv/tiny.gguf",
                "served_model_name": ["tiny", "small"],
                "max_model_len": 4096,
                "device": "cpu",
                "args": ["-ngl", "99"],
            },
            id="llama-server",
        ),
        pytest.param(
            "llama-server -hf org/m-GGUF:Q4_K_M -c 0",
            {"engine": "llama-cpp", "model": "org/m-GGUF:Q4_K_M", "args": ["-c", "0"]},
            id="llama-server-from-the-hub-with-a-length-that-no-field-says",
        ),
        pytest.param(
            "numactl -N 0 ~/v/bin/vllm serve models/local --chat-template t.jinja --config=conf/e.yaml --parser hermes",
            {
                "engine": "vllm",
                "executable": "/home/me/v/bin/vllm",
                "prefix": ["numactl", "-N", "0"],
                "model": "/srv/models/local",
                "served_model_name": "models/local",
                "args": ["--chat-template", "/srv/t.jinja", "--config=/srv/conf/e.yaml", "--parser", "hermes"],
            },
            id="files-of-this-folder-become-absolute",
        ),
        pytest.param(
            "./vllm serve ../m",
            {"engine": "vllm", "executable": "/srv/vllm", "model": "/m", "served_model_name": "../m"},
            id="so-do-paths-that-can-be-nothing-else",
        ),
        pytest.param(
            "vllm serve org/m --max-model-len 1000 --max-model-len 2000",
            {"engine": "vllm", "model": "org/m", "served_model_name": "org/m", "max_model_len": 2000},
            id="the-last-one-counts",
        ),
        pytest.param(
            "NCCL_DEBUG=INFO LLAMA_ARG_PORT=9000 LLAMA_ARG_CTX_SIZE=512 llama-server -m /m.gguf --port 9001",
            {
                "engine": "llama-cpp",
                "model": "/m.gguf",
                "port": 9001,
                "max_model_len": 512,
                "env": {"NCCL_DEBUG": "INFO"},
            },
            id="variables-that-say-a-field-give-way-to-flags",
        ),
    ],
)
def test_what_a_command_says(line: str, expected: dict) -> None:
    assert fields_of(line) == expected
    assert read(line).remarks == {}


def test_a_file_that_is_not_here_is_spoken_of() -> None:
    found = read("vllm serve m --chat-template examples/tool.jinja --parser hermes")
    assert found.fields["args"] == ["--chat-template", "examples/tool.jinja", "--parser", "hermes"]
    assert found.remarks == {"args": "examples/tool.jinja is not here; write its absolute path on the node"}


@pytest.mark.parametrize(
    ("line", "gpus", "device"),
    [
        pytest.param("vllm serve m", None, None, id="nothing-said"),
        pytest.param("CUDA_VISIBLE_DEVICES=2,3 vllm serve m -tp 2", [2, 3], None, id="by-index"),
        pytest.param("CUDA_VISIBLE_DEVICES=GPU-a,GPU-b vllm serve m", ["GPU-a"], None, id="as-many-as-are-used"),
        pytest.param("vllm serve m --device-ids 4,5 -tp 2", [4, 5], None, id="by-vllms-flag"),
        pytest.param("sglang serve --model-path m --tp 2 --base-gpu-id 2", [2, 3], None, id="by-sglangs-flag"),
        pytest.param("CUDA_VISIBLE_DEVICES= vllm serve m", None, "cpu", id="all-hidden-is-the-cpu"),
    ],
)
def test_which_gpus_it_says(line: str, gpus: list | None, device: str | None) -> None:
    fields = fields_of(line)
    assert fields.get("gpus") == (None if gpus is None else {"ids": gpus})
    assert fields.get("device") == device


def test_too_few_gpus_are_not_named_and_that_is_said() -> None:
    found = read("CUDA_VISIBLE_DEVICES=0 vllm serve m -tp 2")
    assert "gpus" not in found.fields
    assert found.remarks == {"model": "its sizes need more GPUs (2) than the command names (1): none is named"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("CUDA_VISIBLE_DEVICES=0,1 llama-server -m /m", {"pipeline_parallel_size": 2}, id="by-layers"),
        pytest.param("CUDA_VISIBLE_DEVICES=0,1 llama-server -m /m -sm row", {"tensor_parallel_size": 2}, id="by-rows"),
        pytest.param("CUDA_VISIBLE_DEVICES=0 llama-server -m /m", {}, id="one-is-not-split"),
        pytest.param("llama-server -m /m -sm none", {"args": ["--split-mode", "none"]}, id="as-it-is-told"),
    ],
)
def test_how_llama_server_splits_a_model(line: str, expected: dict) -> None:
    split = {"pipeline_parallel_size", "tensor_parallel_size", "args"}
    assert {name: value for name, value in fields_of(line).items() if name in split} == expected


@pytest.mark.parametrize(
    ("line", "fields", "about"),
    [
        pytest.param("vllm serve m --api-key sk-1", {"api_key": {"env": "VLLM_API_KEY"}}, "api_key", id="a-key"),
        pytest.param("vllm serve m --api-key a sk-1", {"api_key": {"env": "VLLM_API_KEY"}}, "api_key", id="two-keys"),
        pytest.param("vllm serve m --api-key $MY_KEY", {"api_key": {"env": "MY_KEY"}}, "api_key", id="a-named-key"),
        pytest.param(
            "VLLM_API_KEY=sk-1 vllm serve m", {"api_key": {"env": "VLLM_API_KEY"}}, "api_key", id="by-variable"
        ),
        pytest.param(
            "sglang serve --model-path m --api-key=sk-1", {"api_key": {"env": "SGLANG_API_KEY"}}, "api_key", id="sglang"
        ),
        pytest.param("HF_TOKEN=hf_1 vllm serve m", {"env": {"HF_TOKEN": {"env": "HF_TOKEN"}}}, "env", id="a-token"),
        pytest.param("HF_TOKEN=$T vllm serve m", {"env": {"HF_TOKEN": {"env": "T"}}}, "env", id="a-named-token"),
        pytest.param("vllm serve m --hf-token hf_1", {"env": {"HF_TOKEN": {"env": "HF_TOKEN"}}}, "env", id="by-flag"),
        pytest.param(
            "HTTPS_PROXY=http://u:sk-1@p vllm serve m",
            {"env": {"HTTPS_PROXY": {"env": "HTTPS_PROXY"}}},
            "env",
            id="url",
        ),
        pytest.param("sglang serve --model-path m --admin-api-key sk-1", {}, "args", id="a-flag-without-a-variable"),
        pytest.param("vllm serve m --otlp-endpoint http://u:sk-1@host", {}, "args", id="a-password-in-a-value"),
        pytest.param("vllm serve m --ssl-keyfile-password=sk-1", {}, "args", id="a-password"),
    ],
)
def test_a_secret_becomes_a_reference_and_is_spoken_of(line: str, fields: dict, about: str) -> None:
    found = read(line)
    assert {name: found.fields[name] for name in fields} == fields
    assert about in found.remarks
    assert "args" not in found.fields
    assert not {"sk-1", "hf_1"} & set(str(found).replace("'", " ").replace(":", " ").replace("@", " ").split())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("vllm serve --enable-x org/m", "cannot tell which model vLLM serves", id="a-model-or-a-value"),
        pytest.param("llama-server --port 1", "cannot tell which model llama-server serves", id="none"),
        pytest.param("llama-server -mu http://x/m.gguf", "cannot tell which model", id="from-where-no-field-says"),
        pytest.param("vllm serve m --port $PORT", r"only your shell knows \$PORT", id="a-value-that-is-not-known"),
        pytest.param("LEVEL=$L vllm serve m", r"only your shell knows \$L", id="nor-that-of-a-variable"),
    ],
)
def test_what_cannot_be_read_is_refused(line: str, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        read(line)


SIZES = st.none() | st.integers(1, 8)
TEXTS = st.none() | st.sampled_from(["auto", "bfloat16", "fp8_e5m2", "main"])


@given(
    engine=st.sampled_from([EngineKind.VLLM, EngineKind.SGLANG]),
    executable=st.sampled_from(["vllm", "sglang", "/opt/v/bin/python3.12", "/opt/v/bin/vllm", "/opt/v/bin/sglang"]),
    model=st.sampled_from(["org/m", "/srv/m"]),
    sizes=st.tuples(SIZES, SIZES, SIZES),
    texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS),
    length=st.none() | st.integers(1, 10**6),
    share=st.none() | st.sampled_from([0.5, 0.92, 1.0]),
    names=st.sampled_from([("chat",), ("org/m",)]),
    args=st.sampled_from([(), ("--enable-x",), ("--x", "1", "--y=2")]),
)
def test_reading_is_the_inverse_of_the_command(
    engine, executable, model, sizes, texts, length, share, names, args
) -> None:
    base = executable.rpartition("/")[2]
    executable = executable if base.startswith("python") or base == str(engine) else str(engine)
    fields = {
        "model": model,
        "tensor_parallel_size": sizes[0],
        "pipeline_parallel_size": sizes[1],
        "data_parallel_size": sizes[2],
        "revision": texts[0],
        "quantization": texts[1],
        "dtype": texts[2],
        "kv_cache_dtype": texts[3],
        "max_model_len": length,
        "gpu_memory_utilization": share,
        "host": "0.0.0.0",
    }
    placement = a_placement(
        gpu(0), engine=engine, executable=executable, port=8123, served_model_name=names, args=args, **fields
    )
    argv = (*KINDS[engine].command(placement), *args)
    found = read_command(program_in(argv), {}, HERE).fields
    given_fields = {name: value for name, value in fields.items() if value is not None}
    assert found == {
        **given_fields,
        "engine": str(engine),
        "port": 8123,
        "served_model_name": names[0],
        **({} if executable == str(engine) else {"executable": executable}),
        **({"args": list(args)} if args else {}),
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"device": Device.CPU}, {"device": "cpu"}, id="cpu"),
        pytest.param({"max_model_len": 256}, {"max_model_len": 256}, id="length"),
        pytest.param({"served_model_name": ("a", "b")}, {"served_model_name": ["a", "b"]}, id="names"),
    ],
)
def test_it_is_the_inverse_for_llama_server_too(fields: dict, expected: dict) -> None:
    placement = a_placement(gpu(0), engine=EngineKind.LLAMA_CPP, executable="llama-server", model="/m.gguf", **fields)
    found = read_command(program_in(KINDS[EngineKind.LLAMA_CPP].command(placement)), {}, HERE).fields
    assert found == {
        "engine": "llama-cpp",
        "model": "/m.gguf",
        "host": "127.0.0.1",
        "port": 8000,
        "served_model_name": "chat",
        **expected,
    }
