"""What was recorded of a node comes back as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.discovery.snapshot import world_of
from llmgw_reconcile.model.observed import Phase, ProcessId
from llmgw_reconcile.render.snapshot import snapshot_document

RECORDED = json.loads((Path(__file__).parents[2] / "states/node.snapshot.json").read_text())


def recorded_again(document: dict[str, Any]) -> dict[str, Any]:
    inventory, observed = world_of(document)
    again: dict[str, Any] = json.loads(json.dumps(snapshot_document(inventory, observed, ())))
    return again


def test_a_recorded_node_is_recorded_alike_once_more() -> None:
    again = recorded_again(RECORDED)
    assert again["engines"] == RECORDED["engines"]
    assert again["status"]["engines"] == RECORDED["status"]["engines"]
    known = RECORDED["inventory"].keys()
    assert [gpu["uuid"] for gpu in again["inventory"]["gpus"]] == [gpu["uuid"] for gpu in RECORDED["inventory"]["gpus"]]
    assert known <= again["inventory"].keys()
    assert recorded_again(again) == again


def test_the_engines_are_those_that_a_plan_compares() -> None:
    _, observed = world_of(RECORDED)
    assert observed.readable
    for engine in observed.engines:
        assert engine.spec == RECORDED["engines"][engine.engine]["spec"]
        assert engine.secret_digests is None  # nothing is known of secrets elsewhere
    assert [engine.engine for engine in observed.engines] == sorted(RECORDED["engines"])


def changed(**status: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(RECORDED))
    document["status"]["engines"][0] |= status
    return document


def test_an_engine_that_had_ended_is_nobody_now() -> None:
    document = changed(phase="failed", pid=None)
    name = document["status"]["engines"][0]["engine"]
    document["engines"][name] |= {"supervised": False, "leftovers": [4711]}
    engine = world_of(document)[1].find(name)
    assert engine is not None
    assert (engine.phase, engine.live, engine.supervisor) == (Phase.FAILED, None, None)
    assert engine.leftovers == (ProcessId(4711, 0),)


@pytest.mark.parametrize("status", [{"phase": "asleep"}, {"engine": "nobody@0"}])
def test_parts_that_contradict_each_other_are_refused(status: dict[str, Any]) -> None:
    with pytest.raises((KeyError, ValueError)):
        world_of(changed(**status))
