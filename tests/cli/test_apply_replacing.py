"""Replacements: one at a time, each ready before the next one stops, and back again when one was in vain."""

from __future__ import annotations

import json
import re

import pytest

from tests.fakes import procs
from tests.fakes.node import Json, Node

BROKEN = {"STUB_EXIT": "7@0.2", "STUB_LISTEN_DELAY": "60", "STUB_ERROR": "ValueError: head size 7 is not supported"}


def changed(model: Json, **env: str) -> Json:
    """The same model with another length, and other knobs for its next run."""
    return model | {"max_model_len": 2048, "env": model["env"] | env}


def steps(text: str) -> list[tuple[str, str]]:
    """What began and ended, in order."""
    events = [json.loads(line) for line in text.splitlines()]
    return [(e["event"].removeprefix("action_"), e["engine"]) for e in events if e["event"].startswith("action_")]


def test_replacements_roll_one_engine_at_a_time(node: Node) -> None:
    models = [node.model(name) for name in "abc"]
    state = node.state(*models)
    node.apply(state)
    node.state(*(changed(model, STUB_LISTEN_DELAY="0.3") for model in models))
    assert steps(node.llmgw("apply", state, "-o", "json").out) == [
        ("started", "a@0"),
        ("finished", "a@0"),
        ("started", "b@0"),
        ("finished", "b@0"),
        ("started", "c@0"),
        ("finished", "c@0"),
    ]


def test_a_replacement_in_vain_is_rolled_back_and_ends_the_rest(node: Node) -> None:
    a, b = node.model("a"), node.model("b")
    state = node.state(a, b)
    node.apply(state)
    before = node.status()
    node.state(changed(a, **BROKEN), changed(b), node.model("new"))
    result = node.apply(state, code=1)
    assert re.search(
        r"failed: a@0 +replace: exit code 7; rolled back to its previous launch, which is ready", result.out
    )
    assert "cause: ValueError: head size 7 is not supported" in result.out
    assert "not tried  b@0 (replace: a@0 did not get ready)" in result.out
    assert "a@0: exit code 7; its previous launch is started again" in result.err
    after = node.status()
    assert {name: row["phase"] for name, row in after.items()} == {"a@0": "ready", "b@0": "ready", "new@0": "ready"}
    assert after["b@0"]["pid"] == before["b@0"]["pid"]
    assert after["a@0"]["pid"] != before["a@0"]["pid"]
    assert "--max-model-len" not in node.pids()[after["a@0"]["pid"]]
    assert node.actions(state) == {"a@0": "replace", "b@0": "replace"}


def test_the_evidence_of_a_replacement_in_vain_stays_readable(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    node.state(changed(chat, **BROKEN))
    node.apply(state, code=1)
    engine = node.engine()
    assert engine["phase"] == "ready"
    assert (engine["last_exit"]["code"], engine["last_exit"]["cause"]) == (
        7,
        "ValueError: head size 7 is not supported",
    )
    assert "head size 7 is not supported" in node.llmgw("logs", "chat", "--previous").out
    assert "head size 7 is not supported" in node.llmgw("status").out


def test_a_previous_launch_that_does_not_come_back_either_is_said(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    node.state(changed(chat, STUB_MODELS="[]"))  # the file may not change while it runs: the knobs of both runs do
    node.tell(EXIT="9@0.1", LISTEN_DELAY=60)
    result = node.apply(state, code=1)
    assert "exit code 9; its previous launch does not get ready either: exit code 9" in result.out
    assert node.engine()["phase"] == "failed"
    assert node.stubs() == {}


def test_events_tell_of_a_rollback(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    node.state(changed(chat, **BROKEN))
    events = [json.loads(line) for line in node.llmgw("apply", state, "-o", "json", code=1).out.splitlines()]
    phases = [(event["phase"], event["detail"]) for event in events if event["event"] == "phase"]
    back = phases.index(("failed", "exit code 7; its previous launch is started again"))
    assert [phase for phase, _ in phases[back:]][-1] == "ready"
    (end,) = [event for event in events if event["event"] == "action_finished"]
    assert (end["ok"], end["summary"]) == (False, "exit code 7; rolled back to its previous launch, which is ready")


def test_an_edited_file_of_args_does_not_spoil_the_way_back(node: Node) -> None:
    template = node.root / "t.jinja"
    template.write_text("first")
    chat = node.model(args=["--chat-template", {"file": "./t.jinja"}])
    state = node.state(chat)
    node.apply(state)
    template.write_text("second")
    node.state(chat | {"env": chat["env"] | BROKEN})
    assert "args.--chat-template" in node.llmgw("plan", state).out
    node.apply(state, code=1)
    line = node.pids()[node.engine()["pid"]].split()
    copy = line[line.index("--chat-template") + 1]
    assert (node.state_dir / "engines/chat@0").as_posix() in copy
    with open(copy) as file:
        assert file.read() == "first"


def test_engines_that_change_places_are_one_step(node: Node) -> None:
    a, b = node.model("a"), node.model("b")
    state = node.state(a, b)
    node.apply(state)
    node.state(a | {"port": b["port"]}, b | {"port": a["port"]})
    found = steps(node.llmgw("apply", state, "-o", "json").out)
    assert found[:2] == [("started", "a@0"), ("started", "b@0")]
    assert {name: row["port"] for name, row in node.status().items()} == {"a@0": b["port"], "b@0": a["port"]}


def test_a_change_of_places_in_vain_brings_both_back(node: Node) -> None:
    a, b = node.model("a"), node.model("b")
    state = node.state(a, b)
    node.apply(state)
    node.state(a | {"port": b["port"], "env": a["env"] | BROKEN}, b | {"port": a["port"]})
    result = node.apply(state, code=1)
    assert "failed: a@0  replace: exit code 7; rolled back to its previous launch, which is ready" in result.out
    assert "failed: b@0  replace: gives its place back: a@0 did not get ready; rolled back" in result.out
    assert {name: (row["port"], row["phase"]) for name, row in node.status().items()} == {
        "a@0": (a["port"], "ready"),
        "b@0": (b["port"], "ready"),
    }


def test_a_start_on_the_place_of_a_replacement_in_vain_gives_it_back(node: Node) -> None:
    a = node.model("a", gpus={"ids": ["0"]})
    state = node.state(a)
    node.apply(state)
    node.state(a | {"gpus": {"ids": ["1"]}, "env": a["env"] | BROKEN}, node.model("new", gpus={"ids": ["0"]}))
    result = node.apply(state, code=1)
    assert "new@0  start: gives its place back: a@0 did not get ready; stopped again" in result.out
    assert {name: row["phase"] for name, row in node.status().items()} == {"a@0": "ready", "new@0": "stopped"}


def test_no_wait_still_rolls_and_waits_for_all_but_the_last(node: Node) -> None:
    models = [node.model(name) for name in "ab"]
    state = node.state(*models)
    node.apply(state)
    node.state(*(changed(model, STUB_LISTEN_DELAY="0.5") for model in models))
    result = node.apply(state, "--no-wait")
    assert "a@0 (replace: ready, " in result.out
    assert "b@0 (replace: not ready yet: not waited for; its supervisor goes on" in result.out
    node.llmgw("wait")


def test_an_engine_that_dies_before_it_is_replaced_gets_its_new_run_all_the_same(node: Node) -> None:
    chat = node.model(stub={"IGNORE_TERM": "always", "TERM_DELAY": 60}, stop_grace="20s")
    state = node.state(chat)
    node.apply(state)
    pid = node.engine()["pid"]
    node.state(changed(chat, STUB_IGNORE_TERM="", STUB_TERM_DELAY="0"))
    apply = node.begin("apply", state)
    procs.until(lambda: node.engine()["phase"] == "stopping")
    node.kill(pid)
    out, err = apply.communicate(timeout=30)
    assert apply.returncode == 0, out + err
    assert node.engine()["phase"] == "ready"


def test_a_supervisor_that_dies_while_its_engine_loads_leaves_the_engine_for_adoption(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    node.state(changed(chat, STUB_LISTEN_DELAY="3"))
    apply = node.begin("apply", state)
    procs.until(lambda: any("--max-model-len" in line for line in node.stubs().values()))
    (fresh,) = node.stubs()
    node.kill(node.supervisor_named("chat@0"))
    out, _ = apply.communicate(timeout=30)
    assert apply.returncode == 1
    assert "its supervisor is gone" in out
    assert "the engine itself lives on: the next apply adopts it" in out
    assert list(node.stubs()) == [fresh]
    assert node.actions(state) == {"chat@0": "adopt"}
    node.apply(state)
    assert (node.engine()["pid"], node.engine()["phase"]) == (fresh, "ready")


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_left_of_a_dead_run_is_named_and_ends_before_the_start(node: Node, workers: int) -> None:
    chat = node.model(stub={"WORKERS": workers, "WORKER_RENAME": 1, "MIB": 70000})
    state = node.state(chat)
    node.apply(state)
    pid = node.engine()["pid"]
    node.kill(node.supervisor_of(pid))
    node.kill(pid)
    left = set(node.stubs())
    assert len(left) == workers
    planned = node.llmgw("plan", state).out
    assert all(str(worker) in planned for worker in left)
    node.apply(state)
    assert not left & set(node.stubs())
    assert node.engine()["phase"] == "ready"
