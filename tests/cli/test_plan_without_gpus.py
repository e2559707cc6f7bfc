"""A state file for GPUs on a machine that has none: the plan names the command that shows it all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.fakes.node import Node

STATES = Path(__file__).parents[2] / "states"


def test_a_plan_without_gpus_names_the_recording_beside_the_state_file(node: Node) -> None:
    node.without_gpus()
    state, recording = node.root / "node.yaml", node.root / "node.snapshot.json"
    shutil.copy(STATES / "node.yaml", state)
    shutil.copy(STATES / "node.snapshot.json", recording)
    said = node.llmgw("plan", state, code=1).out
    assert f"llmgw plan {state} --from {recording}" in said


def test_a_plan_without_gpus_names_no_recording_where_there_is_none(node: Node) -> None:
    node.without_gpus()
    state = node.root / "node.yaml"
    shutil.copy(STATES / "node.yaml", state)
    assert "recorded-node" not in node.llmgw("plan", state, code=1).out
