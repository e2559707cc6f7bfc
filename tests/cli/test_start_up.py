"""What a plan that finds nothing to do may import: start-up is most of what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fakes.node import Node

PROBE = """
import sys
from llmgw_reconcile.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n".join(sys.modules))
sys.exit(code)
"""
HEAVY = {"asyncio", "dataclasses", "email", "http", "jsonschema", "pathlib", "rich", "subprocess", "tempfile", "urllib"}
ONLY_TO_ACT = {"supervise", "supervisor", "workflow.carry_out", "workflow.stepping", "render.recap", "render.plan_json"}


def imported(node: Node, *args: object) -> set[str]:
    """The modules that a run of llmgw has imported at its end."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *map(str, args)], env=node.env, capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines())


@pytest.mark.parametrize("options", [(), ("-v",), ("--detailed-exitcode",)], ids=["plain", "verbose", "exit-code"])
def test_a_plan_that_changes_nothing_is_light(node: Node, options: tuple[str, ...]) -> None:
    state = node.state(node.model(), node.model("other", tensor_parallel_size=2))
    node.apply(state)
    loaded = imported(node, "plan", state, *options)
    assert loaded.isdisjoint(HEAVY)
    ours = {name.removeprefix("llmgw_reconcile.") for name in loaded if name.startswith("llmgw_reconcile.")}
    assert {name for name in ours if name.startswith(tuple(ONLY_TO_ACT))} == set()


def test_status_and_logs_are_light_too(node: Node) -> None:
    node.apply(node.state(node.model()))
    assert imported(node, "status").isdisjoint(HEAVY)
    assert imported(node, "logs", "chat").isdisjoint(HEAVY)


def test_an_apply_that_changes_nothing_needs_no_heavy_module(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    assert imported(node, "apply", state).isdisjoint(HEAVY - {"tempfile"})
