"""Flags that an engine would refuse: by its own list, and by what is known of its version."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.flag_history import ADDED, DEPRECATED, GONE
from llmgw_reconcile.engines.help_text import parse_help
from llmgw_reconcile.engines.known_flags import FlagProblem, flag_problems
from llmgw_reconcile.engines.version import at_least, release
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.model.installed import Installed
from tests.engines.helps import LLAMA_HELP, SGLANG_HELP, VLLM_HELP

VLLM, SGLANG, LLAMA = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMA_CPP
LISTED = {
    VLLM: Installed("0.33.0", parse_help(VLLM_HELP)),
    SGLANG: Installed("0.5.23", parse_help(SGLANG_HELP)),
    LLAMA: Installed("10434", parse_help(LLAMA_HELP)),
}


def refused(words: str, kind: EngineKind, installed: Installed) -> list[tuple[str, str]]:
    problems = flag_problems(words.split(), kind, installed)
    return [(problem.words, problem.cure) for problem in problems if problem.is_refused]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (VLLM, "org/m --dtype half -tp 2 --max_model_len=8 --no-enforce-eager --served-model-name a b"),
        (VLLM, "-O3 -O.mode=3 -O 2 --no-enable-prefix-caching"),
        (VLLM, "org/m --tensor-par 2 -qfp8 -O3 --compilation-config.mode 3 --tool-call-parser gamma"),
        (SGLANG, "--model x --tp-size 2 --trust-remote-code --tensor-par 2"),
        (LLAMA, "-m /m.gguf -c -1 --no-mmap --rope-scaling yarn"),
    ],
)
def test_what_the_engine_lists_passes(kind: EngineKind, words: str) -> None:
    assert refused(words, kind, LISTED[kind]) == []


@pytest.mark.parametrize(
    ("kind", "words", "problem", "cure"),
    [
        pytest.param(
            VLLM,
            "--enforce-eagre",
            "vLLM 0.33.0 has no --enforce-eagre",
            "did you mean --enforce-eager?",
            id="misspelt",
        ),
        pytest.param(
            VLLM,
            "--task generate",
            "vLLM 0.33.0 has no --task: gone between 0.12 and 0.16",
            "write --runner, or --convert",
            id="removed-with-a-successor",
        ),
        pytest.param(
            VLLM,
            "--max-num 4",
            "--max-num is cut short, and may be --max-num-batched-tokens, --max-num-seqs of vLLM 0.33.0",
            "",
            id="cut-too-short",
        ),
        pytest.param(
            VLLM,
            "--dtype double",
            "vLLM 0.33.0 has no --dtype double",
            "it takes auto, bfloat16, float16, float32, half",
            id="unknown-value",
        ),
        pytest.param(
            VLLM,
            "-q gguf",
            "vLLM 0.33.0 has no -q gguf: gone between 0.25 and 0.33",
            "install vllm-gguf-plugin",
            id="removed-value-by-its-alias",
        ),
        pytest.param(
            SGLANG,
            "--enable-ep-moe",
            "SGLang 0.5.23 has no --enable-ep-moe: gone by 0.5.23",
            "write --ep-size",
            id="sglang-removed",
        ),
        pytest.param(
            SGLANG, "--tp_size 2", "SGLang 0.5.23 has no --tp_size", "did you mean --tp-size?", id="sglang-underscore"
        ),
        pytest.param(
            LLAMA, "--ctx 8", "llama-server 10434 has no --ctx", "did you mean --ctx-size?", id="llama-server-cut-short"
        ),
        pytest.param(
            LLAMA,
            "--draft 8",
            "llama-server 10434 has removed --draft",
            "use --spec-draft-n-max or --spec-other",
            id="listed-as-removed",
        ),
    ],
)
def test_what_the_engine_does_not_list_is_refused(kind: EngineKind, words: str, problem: str, cure: str) -> None:
    assert refused(words, kind, LISTED[kind]) == [(problem, cure)]


@pytest.mark.parametrize(
    ("words", "version", "problems"),
    [
        pytest.param(
            "--swap-space 4", "0.20.0", ["vLLM 0.20.0 has no --swap-space: gone between 0.16 and 0.20"], id="gone"
        ),
        pytest.param("--swap-space 4", "0.18.0", [], id="in-between-nothing-is-known"),
        pytest.param("--swap-space 4", "0.16.0", [], id="still-there"),
        pytest.param("--nnodes 2", "0.10.1", ["vLLM 0.10.1 has no --nnodes: new in 0.12"], id="not-there-yet"),
        pytest.param("--nnodes 2", "0.12.0", [], id="there-by-now"),
        pytest.param("--anything", "0.33.0", [], id="a-flag-that-no-table-knows"),
        pytest.param(
            "--quantization bitsandbytes",
            "0.33.0",
            ["vLLM 0.33.0 has no --quantization bitsandbytes: gone between 0.25 and 0.33"],
            id="a-value-that-is-gone",
        ),
        pytest.param("--quantization bitsandbytes", "0.20.0", [], id="a-value-that-is-there"),
    ],
)
def test_an_engine_that_lists_nothing_is_judged_by_its_version(words: str, version: str, problems: list[str]) -> None:
    assert [problem for problem, _ in refused(words, VLLM, Installed(version))] == problems


def test_an_engine_of_which_nothing_is_known_is_not_judged() -> None:
    assert list(flag_problems(["--swap-space", "4", "--no-such-flag"], VLLM, Installed())) == []


def test_a_deprecated_flag_is_told_and_not_refused() -> None:
    assert list(flag_problems(["--log-config-file", "x"], VLLM, Installed("0.33.0"))) == [
        FlagProblem("--log-config-file is deprecated in vLLM 0.33.0", "write --logging-config", is_refused=False)
    ]
    assert list(flag_problems(["--log-config-file", "x"], VLLM, Installed("0.29.0"))) == []


def test_a_value_is_only_told_of_a_flag_whose_values_are_listed() -> None:
    assert refused("--api-key s3cr3t-value", VLLM, LISTED[VLLM]) == []


def test_the_tables_are_in_order() -> None:
    for kind in EngineKind:
        assert all(at_least(gone.gone, gone.last) for gone in GONE[kind])
        assert all(at_least(new.first, new.absent) for new in ADDED[kind])
        assert all(release(old.since) for old in DEPRECATED[kind])
        named = [(gone.flag, gone.value) for gone in GONE[kind]]
        assert len(named) == len(set(named))
