"""What is asked of an installed engine."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.installed import help_questions, version_question
from llmgw_reconcile.model.desired import EngineKind

VLLM, SGLANG, LLAMA = EngineKind.VLLM, EngineKind.SGLANG, EngineKind.LLAMA_CPP
METADATA = "import importlib.metadata as m; print(m.version('{}'))"


@pytest.mark.parametrize(
    ("kind", "executable", "version", "helps"),
    [
        (VLLM, "/v/vllm", ("--version",), (("serve", "--help=all"), ("serve", "--help"))),
        (
            VLLM,
            "/v/python3",
            ("-c", METADATA.format("vllm")),
            (
                ("-m", "vllm.entrypoints.cli.main", "serve", "--help=all"),
                ("-m", "vllm.entrypoints.cli.main", "serve", "--help"),
            ),
        ),
        (SGLANG, "/v/sglang", ("version",), (("serve", "--help"),)),
        (SGLANG, "/v/python", ("-c", METADATA.format("sglang")), (("-m", "sglang.launch_server", "--help"),)),
        (LLAMA, "/v/llama-server", ("--version",), (("--help",),)),
    ],
)
def test_each_engine_is_asked_in_its_own_words(
    kind: EngineKind, executable: str, version: tuple[str, ...], helps: tuple[tuple[str, ...], ...]
) -> None:
    assert version_question(kind, executable) == (executable, *version)
    assert help_questions(kind, executable) == tuple((executable, *words) for words in helps)
