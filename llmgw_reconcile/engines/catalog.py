"""The engine kinds that llmgw runs, by their name in the state file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from llmgw_reconcile.engines.kind import Kind
from llmgw_reconcile.engines.llama_cpp import LLAMA_CPP
from llmgw_reconcile.engines.sglang import SGLANG
from llmgw_reconcile.engines.vllm import VLLM
from llmgw_reconcile.model.desired import EngineKind

KINDS: Mapping[EngineKind, Kind] = MappingProxyType(
    {EngineKind.VLLM: VLLM, EngineKind.SGLANG: SGLANG, EngineKind.LLAMA_CPP: LLAMA_CPP}
)


def default_executable(kind: EngineKind) -> str:
    """The command that is looked for on PATH when the state file names none."""
    return KINDS[kind].executable
