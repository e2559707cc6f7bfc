"""Which engines are installed here, and how old they are."""

from __future__ import annotations

from pathlib import Path

from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.workflow.engines_here import InstalledEngine, installed_engines


def script(folder: Path, name: str, text: str = "") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_each_kind_is_looked_for_on_path_and_its_version_told_where_that_is_cheap(tmp_path) -> None:
    (tmp_path / "v/lib/python3.11/site-packages/vllm-0.33.0.dist-info").mkdir(parents=True)
    vllm = script(tmp_path / "v/bin", "vllm", "exit 1")
    sglang = script(tmp_path / "bin", "sglang", "exit 1")
    llama = script(tmp_path / "bin", "llama-server", "echo 'version: 10434 (8a3b2c1d)' >&2")
    assert installed_engines({"PATH": f"{tmp_path}/v/bin:{tmp_path}/bin"}) == (
        InstalledEngine(EngineKind.VLLM, vllm, "0.33.0"),
        InstalledEngine(EngineKind.SGLANG, sglang, None),
        InstalledEngine(EngineKind.LLAMA_CPP, llama, "10434"),
    )


def test_what_is_not_there_is_left_out(tmp_path) -> None:
    assert [engine.kind for engine in installed_engines({"PATH": str(tmp_path)})] == []
