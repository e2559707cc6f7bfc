"""Which engine a command line is."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.program import program_in, program_of
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.model.desired import EngineKind

VLLM, SGLANG, LLAMA_CPP = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMA_CPP


@pytest.mark.parametrize(
    ("line", "kind", "executable", "arguments"),
    [
        pytest.param("vllm serve m", VLLM, "vllm", ["m"], id="vllm"),
        pytest.param("/v/bin/python3.12 /v/bin/vllm serve m", VLLM, "/v/bin/vllm", ["m"], id="vllm-as-proc-shows-it"),
        pytest.param(
            "python -m vllm.entrypoints.openai.api_server --model m", VLLM, "python", ["--model", "m"], id="vllm-module"
        ),
        pytest.param("python3 -u -m vllm.entrypoints.cli.main serve m", VLLM, "python3", ["m"], id="vllm-cli-module"),
        pytest.param("sglang serve --model-path m", SGLANG, "sglang", ["--model-path", "m"], id="sglang"),
        pytest.param(
            "python -m sglang.launch_server --model m", SGLANG, "python", ["--model", "m"], id="sglang-module"
        ),
        pytest.param("/x/llama-server -m f", LLAMA_CPP, "/x/llama-server", ["-m", "f"], id="llama-server"),
        pytest.param(
            "python3 /v/bin/llama-server-vulkan -m f",
            LLAMA_CPP,
            "/v/bin/llama-server-vulkan",
            ["-m", "f"],
            id="wrapper",
        ),
    ],
)
def test_every_form_of_an_engine_is_known(line: str, kind: EngineKind, executable: str, arguments: list) -> None:
    found = program_of(line.split())
    assert found is not None
    assert (found.kind, found.executable, list(found.arguments)) == (kind, executable, arguments)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("", id="nothing"),
        pytest.param("vllm bench serve", id="another-verb"),
        pytest.param("vllm", id="no-verb"),
        pytest.param("bash -c 'vllm serve m'", id="a-shell-round-it"),
        pytest.param("numactl -N 0 vllm serve m", id="a-wrapper-round-it"),
        pytest.param("VLLM::EngineCore", id="a-renamed-child"),
        pytest.param("python -m http.server", id="another-module"),
        pytest.param("python -c pass", id="code"),
        pytest.param("python", id="an-interpreter-alone"),
        pytest.param("vim vllm serve", id="a-word-that-is-no-program"),
    ],
)
def test_no_other_process_is_an_engine(line: str) -> None:
    assert program_of(line.split()) is None


@pytest.mark.parametrize(
    ("line", "prefix"),
    [
        pytest.param("vllm serve m", (), id="none"),
        pytest.param("numactl --cpunodebind=0 vllm serve m", ("numactl", "--cpunodebind=0"), id="what-execs-it-stays"),
        pytest.param("nohup nice -n 5 vllm serve m", ("nice", "-n", "5"), id="what-llmgw-does-itself-goes"),
    ],
)
def test_what_may_stand_before_an_engine(line: str, prefix: tuple[str, ...]) -> None:
    assert program_in(line.split()).prefix == prefix


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param(
            "docker run --gpus all vllm/vllm-openai --model m", "the command that runs inside", id="container"
        ),
        pytest.param(
            "docker run image vllm serve m", "the command that runs inside the container", id="with-an-engine"
        ),
        pytest.param("sudo -u llm vllm serve m", "write the account as `user:`", id="sudo"),
        pytest.param("uv run vllm serve m", r"by its path, such as \.venv/bin/vllm", id="uv"),
        pytest.param("torchrun vllm serve m", "cannot start an engine through torchrun", id="any-other-wrapper"),
        pytest.param("ollama serve", "cannot tell which engine ollama starts", id="another-engine"),
        pytest.param("", "cannot tell which engine an empty command starts", id="nothing"),
    ],
)
def test_what_llmgw_cannot_start_is_refused_with_a_way_out(line: str, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        program_in(line.split())
