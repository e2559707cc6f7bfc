"""One spelling for each flag, so that only real differences show."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.help_text import parse_help
from llmgw_reconcile.engines.normalise import Given, behind_entry, differences, normalise, read_flags
from llmgw_reconcile.model.desired import EngineKind
from tests.engines.helps import LLAMA_HELP, SGLANG_HELP, VLLM_HELP

VLLM, SGLANG, LLAMA = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMA_CPP
OPTIONS = {VLLM: parse_help(VLLM_HELP), SGLANG: parse_help(SGLANG_HELP), LLAMA: parse_help(LLAMA_HELP)}


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        pytest.param(VLLM, "--dtype half", "--dtype=half", id="equals-sign"),
        pytest.param(VLLM, "-tp 4", "--tensor-parallel-size 4", id="alias"),
        pytest.param(VLLM, "--max_model_len 8", "--max-model-len 8", id="underscores"),
        pytest.param(VLLM, "--max-model 8", "--max-model-len 8", id="cut-short"),
        pytest.param(VLLM, "--tensor_par=2", "-tp 2", id="all-at-once"),
        pytest.param(VLLM, "-qfp8", "--quantization fp8", id="short-flag-and-value-in-one"),
        pytest.param(VLLM, "--port 8000", "", id="the-default"),
        pytest.param(VLLM, "--enable-prefix-caching", "", id="a-flag-that-is-on-anyway"),
        pytest.param(VLLM, "--dtype half --dtype auto", "", id="the-last-one-counts"),
        pytest.param(VLLM, "--seed 1 --host h", "--host h --seed 1", id="order"),
        pytest.param(SGLANG, "--model x", "--model-path x", id="sglang-alias"),
        pytest.param(SGLANG, "--context 8", "--context-length 8", id="sglang-cut-short"),
        pytest.param(LLAMA, "-c 0 -m x", "--model x", id="llama-server"),
    ],
)
def test_spellings_of_the_same_are_equal(kind: EngineKind, one: str, other: str) -> None:
    assert normalise(one.split(), kind, OPTIONS[kind]) == normalise(other.split(), kind, OPTIONS[kind])


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        pytest.param(VLLM, "--dtype half", "--dtype float16", id="values"),
        pytest.param(VLLM, "--enforce-eager", "", id="on"),
        pytest.param(VLLM, "--no-enable-prefix-caching", "", id="off"),
        pytest.param(SGLANG, "--context_length 8", "--context-length 8", id="sglang-takes-no-underscores"),
        pytest.param(LLAMA, "--ctx 8", "--ctx-size 8", id="llama-server-takes-nothing-cut-short"),
        pytest.param(LLAMA, "--ctx-size=8", "--ctx-size 8", id="llama-server-takes-no-equals-sign"),
        pytest.param(LLAMA, "--no-mmap", "--mmap", id="opposites"),
    ],
)
def test_what_differs_stays_different(kind: EngineKind, one: str, other: str) -> None:
    assert normalise(one.split(), kind, OPTIONS[kind]) != normalise(other.split(), kind, OPTIONS[kind])


def test_without_the_installed_engine_the_usual_aliases_are_known() -> None:
    assert normalise(["org/m", "-tp", "2", "--max_model_len=8"], VLLM) == {
        "": ("org/m",),
        "--tensor-parallel-size": ("2",),
        "--max-model-len": ("8",),
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("--seed -1", (Given("--seed", ("-1",), "--seed"),), id="a-negative-number-is-a-value"),
        pytest.param(
            "--served-model-name a b --host h",
            (Given("--served-model-name", ("a", "b"), "--served-model-name"), Given("--host", ("h",), "--host")),
            id="several-values",
        ),
        pytest.param(
            "--enforce-eager org/m",
            (Given("--enforce-eager", (), "--enforce-eager"), Given("", ("org/m",), "")),
            id="a-flag-without-a-value-takes-none",
        ),
        pytest.param(
            "--compilation-config.mode 3",
            (Given("--compilation-config.mode", ("3",), "--compilation-config.mode"),),
            id="a-key-below-a-flag",
        ),
        pytest.param("-O3", (Given("--compilation-config", ("3",), "-O3"),), id="a-level"),
        pytest.param(
            "--max-num 4",
            (Given("--max-num", ("4",), "--max-num", ("--max-num-batched-tokens", "--max-num-seqs")),),
            id="cut-too-short",
        ),
    ],
)
def test_flags_are_read(words: str, expected: tuple[Given, ...]) -> None:
    assert read_flags(words.split(), VLLM, OPTIONS[VLLM]) == expected


@pytest.mark.parametrize(
    ("line", "executable", "rest"),
    [
        pytest.param("/v/bin/vllm serve m --port 1", "/v/bin/vllm", "m --port 1", id="as-started"),
        pytest.param("/v/bin/python3 /v/bin/vllm serve m", "/v/bin/vllm", "m", id="as-the-kernel-shows-a-script"),
        pytest.param("/v/bin/python -m sglang.launch_server --port 1", "/v/bin/python", "--port 1", id="module"),
        pytest.param("/x/llama-server -m /m.gguf", "/x/llama-server", "-m /m.gguf", id="llama-server"),
        pytest.param("/lib/real-server -m /m.gguf", "/x/llama-server", "-m /m.gguf", id="a-wrapper-that-is-gone"),
        pytest.param("", "/x/vllm", "", id="nothing"),
    ],
)
def test_what_stands_before_the_flags_is_dropped(line: str, executable: str, rest: str) -> None:
    assert behind_entry(line.split(), executable) == tuple(rest.split())


def test_differences_name_both_sides() -> None:
    one, other = {"--a": ("1",), "--b": ("2",)}, {"--b": ("3",), "--c": ("true",)}
    assert list(differences(one, other)) == [
        ("--a", ("1",), None),
        ("--b", ("2",), ("3",)),
        ("--c", None, ("true",)),
    ]
