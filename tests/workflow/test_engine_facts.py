"""What an installed engine and a model on disk say, from plan and apply as their user sees them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.engines.helps import VLLM_HELP
from tests.fakes.checkpoints import write_model
from tests.fakes.node import Node

GIB = 1 << 30
BIG = ("BF16", 100 * GIB)


def told(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(d["severity"], d["code"]) for d in document["diagnostics"]]


def cache(node: Node) -> list[Path]:
    return sorted((node.root / "home/.cache/llmgw/engines").glob("*"))


def test_weights_that_do_not_fit_block_unless_that_is_accepted(node: Node) -> None:
    model = node.model(model=write_model(node.root / "big", BIG))
    refused = node.apply(node.state(model), code=1)
    assert "100.0 GiB of weights" in refused.out
    assert "[does-not-fit]" in refused.out
    assert node.stubs() == {}
    node.apply(node.state(model | {"accept": ["does-not-fit"]}))
    assert node.engine()["phase"] == "ready"


def test_a_model_that_is_cut_off_blocks_before_it_is_started(node: Node) -> None:
    path = write_model(node.root / "m", ("BF16", GIB))
    os.truncate(node.root / "m/model.safetensors", 4096)
    state = node.state(node.model(model=path))
    assert told(node.plan(state, code=1)) == [("error", "weights-damaged")]


def test_what_becomes_of_the_model_of_a_running_engine_is_a_note_for_its_next_start(node: Node) -> None:
    path = write_model(node.root / "m", ("BF16", 4096))
    state = node.state(node.model(model=path))
    node.apply(state)
    assert node.plan(state)["actions"][0]["at_next_start"] == []
    os.truncate(node.root / "m/model.safetensors", 100)
    document = node.plan(state)
    (action,) = document["actions"]
    assert [change["field"] for change in action["at_next_start"]] == ["model.model.safetensors"]
    assert (action["action"], document["diagnostics"]) == ("keep", [])  # its files are not opened


def test_an_engine_is_asked_once_and_by_apply_alone(node: Node) -> None:
    state = node.state(node.model(model=write_model(node.root / "m")))
    node.plan(state)
    assert cache(node) == []
    first = node.apply(state)
    assert first.err.count("asking ") == 1
    assert len(cache(node)) == 1
    state = node.state(node.model(model=write_model(node.root / "m")), node.model("code", model=str(node.root / "m")))
    assert "asking" not in node.apply(state).err


def test_an_engine_that_lists_its_flags_is_held_to_them(node: Node) -> None:
    model = node.model(model=write_model(node.root / "m"), stub={"HELP": VLLM_HELP}, args=["--enforce-eagre"])
    refused = node.apply(node.state(model), code=1)
    assert "vLLM 0.33.0 has no --enforce-eagre" in refused.out
    assert "did you mean --enforce-eager?" in refused.out
    assert node.stubs() == {}
    assert told(node.plan(node.state(model), code=1)) == [("error", "unknown-flag")]
    node.apply(node.state(model | {"accept": ["unknown-flag"]}))
    node.apply(node.state(model | {"args": ["--enforce-eager"]}))
    assert node.engine()["phase"] == "ready"


def test_an_engine_that_tells_its_version_alone_is_held_to_what_is_known_of_it(node: Node) -> None:
    model = node.model(model=write_model(node.root / "m"), args=["--swap-space", "4"])
    assert "[unknown-flag]" in node.apply(node.state(model), code=1).out


def test_a_pin_blocks_another_version_and_keeps_what_runs(node: Node) -> None:
    model = node.model(model=write_model(node.root / "m"), engine_version="0.33.*")
    node.apply(node.state(model))
    pid = node.engine()["pid"]
    assert node.actions(node.state(model | {"engine_version": ">=0.33"})) == {"chat@0": "update"}
    node.tell(VERSION="0.34.0")
    os.utime(node.bin / "vllm", ns=(1, 1))  # as an upgrade does
    refused = node.apply(node.state(model | {"max_model_len": 4096}), code=1)
    assert "engine_version 0.33.*: vLLM 0.34.0 is installed" in refused.out
    assert node.engine()["pid"] == pid


def test_another_version_installed_is_a_note_for_the_next_start(node: Node) -> None:
    models = node.model(model=write_model(node.root / "m")), node.model("code", model=str(node.root / "m"))
    node.apply(node.state(models[0]))
    for name in ("chat", "code"):
        node.tell(name, VERSION="0.34.0")
    os.utime(node.bin / "vllm", ns=(1, 1))
    node.apply(node.state(*models))
    notes = {action["engine"]: action["at_next_start"] for action in node.plan(node.state(*models))["actions"]}
    assert notes["code@0"] == []
    assert [(note["field"], note["before"], note["after"]) for note in notes["chat@0"]] == [
        ("engine_version", "0.33.0", "0.34.0")
    ]


def test_a_changed_file_of_settings_replaces_its_engine(node: Node) -> None:
    settings = node.root / "v.yaml"
    settings.write_text("seed: 1\n")
    state = node.state(node.model(model=write_model(node.root / "m"), args=["--config", str(settings)]))
    node.apply(state)
    assert node.actions(state) == {}
    settings.write_text("seed: 2\n")
    assert node.actions(state) == {"chat@0": "replace"}
    settings.unlink()  # planned where the file is not
    assert node.actions(state) == {}
