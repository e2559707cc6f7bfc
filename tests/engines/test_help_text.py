"""Help texts in the layouts of the engines, and that of a real llama-server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llmgw_reconcile.engines.help_text import parse_help
from llmgw_reconcile.engines.version import version_in
from llmgw_reconcile.model.installed import Option
from tests.engines.helps import LLAMA_HELP, SGLANG_HELP, VLLM_HELP

LLAMA_SERVER = Path(sys.executable).with_name("llama-server-vulkan")


def option(text: str, name: str) -> Option:
    (found,) = (option for option in parse_help(text) if name in option.names)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(VLLM_HELP, Option(("-h", "--help")), id="a-flag-alone"),
        pytest.param(VLLM_HELP, Option(("--port",), takes_value=True, default="8000"), id="a-value"),
        pytest.param(VLLM_HELP, Option(("--api-key",), takes_value=True, default="None"), id="several-values"),
        pytest.param(
            VLLM_HELP, Option(("--enforce-eager", "--no-enforce-eager"), default="False"), id="a-flag-and-its-opposite"
        ),
        pytest.param(
            VLLM_HELP,
            Option(
                ("--dtype",),
                takes_value=True,
                choices=("auto", "bfloat16", "float16", "float32", "half"),
                default="auto",
            ),
            id="choices",
        ),
        pytest.param(
            VLLM_HELP, Option(("--tool-call-parser",), takes_value=True, default="None"), id="choices-that-are-not-all"
        ),
        pytest.param(
            VLLM_HELP,
            Option(("--tensor-parallel-size", "-tp"), takes_value=True, default="1"),
            id="an-alias-with-its-own-value",
        ),
        pytest.param(
            VLLM_HELP,
            Option(("--compilation-config", "-O"), takes_value=True, default="{'level': None}"),
            id="a-default-in-braces",
        ),
        pytest.param(
            SGLANG_HELP, Option(("--tensor-parallel-size", "--tp-size"), takes_value=True), id="one-value-for-all-names"
        ),
        pytest.param(SGLANG_HELP, Option(("--dtype",), takes_value=True, choices=("auto", "half")), id="on-one-line"),
        pytest.param(LLAMA_HELP, Option(("-c", "--ctx-size"), takes_value=True, default="0"), id="llama-server"),
        pytest.param(LLAMA_HELP, Option(("--mmap", "--no-mmap"), default="enabled"), id="llama-server-opposites"),
        pytest.param(
            LLAMA_HELP,
            Option(("--draft", "--draft-max"), takes_value=True, removed="use --spec-draft-n-max or --spec-other"),
            id="listed-as-removed",
        ),
    ],
)
def test_an_option_is_understood(text: str, expected: Option) -> None:
    assert option(text, expected.names[0]) == expected


def test_every_option_is_found_and_nothing_else() -> None:
    assert [option.name for option in parse_help(VLLM_HELP)] == [
        "--help",
        "--headless",
        "--host",
        "--port",
        "--api-key",
        "--enable-log-requests",
        "--tool-call-parser",
        "--dtype",
        "--max-model-len",
        "--quantization",
        "--served-model-name",
        "--tensor-parallel-size",
        "--enforce-eager",
        "--enable-prefix-caching",
        "--compilation-config",
        "--gpu-memory-utilization",
        "--max-num-seqs",
        "--max-num-batched-tokens",
    ]
    assert len(parse_help(SGLANG_HELP)) == 9


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("stub engine: no help", id="a-sentence"),
        pytest.param("usage: vllm serve\n\n  --help  Groups: Frontend, Model; see --help=all\n", id="groups-alone"),
        pytest.param("{[(<--", id="noise"),
    ],
)
def test_a_text_that_does_not_list_all_flags_lists_none(text: str) -> None:
    assert parse_help(text) == ()


@pytest.mark.real_engine
def test_the_help_of_a_real_llama_server_is_understood() -> None:
    if not LLAMA_SERVER.exists():
        pytest.skip("llama-server-vulkan is not installed")
    version, text = (
        f"{done.stdout}\n{done.stderr}"
        for done in (
            subprocess.run([LLAMA_SERVER, flag], capture_output=True, text=True, check=True)
            for flag in ("--version", "--help")
        )
    )
    found = parse_help(text)
    options = {name: option for option in found for name in option.names}
    assert version_in(version) is not None
    assert len(found) > 200
    assert options["-ngl"].name == "--gpu-layers"
    assert options["--split-mode"].choices == ("none", "layer", "row", "tensor")
    assert options["--metrics"].takes_value is False
    assert {"-m", "--alias", "--host", "--port", "--device", "--ctx-size", "-hf"} <= options.keys()
