"""`llmgw apply`: what it does, what it says, how long it waits."""

from __future__ import annotations

import json
import re
import stat

import pytest

from tests.fakes.node import Json, Node
from tests.fakes.nvidia_smi import h100

CHANGED = {"max_model_len": 2048}


def events(text: str) -> list[Json]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_diff_comes_first_then_progress_then_the_recap(node: Node) -> None:
    result = node.apply(node.state(node.model()))
    summary = "Plan: 1 to start, 0 to replace, 0 to stop, 0 to adopt; 0 unchanged, 0 blocked.\n"
    diff, _, recap = result.out.partition(summary)
    assert "  + chat@0  start    not running" in diff
    assert re.fullmatch(r"\ndone       chat@0 \(start: ready, [\d.]+s\)\nok=1 changed=1 failed=0 blocked=0\n", recap)
    assert "chat@0: start" in result.err.splitlines()
    assert re.fullmatch(r"chat@0: ready \([\d.]+s\)", result.err.splitlines()[-1])


def test_a_second_apply_says_that_nothing_changed_and_touches_nothing(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    pid = node.engine()["pid"]
    again = node.apply(state)
    assert again.out == "No changes. 1 engine runs as the state file says.\n"
    assert again.err == ""
    assert node.engine()["pid"] == pid


def test_start_keep_update_replace_and_stop_in_one_go(node: Node) -> None:
    keep, update, replace, gone = (node.model(name) for name in ("keep", "label", "swap", "gone"))
    state = node.state(keep, update, replace, gone)
    node.apply(state)
    before = node.status()
    node.state(keep, update | {"labels": {"team": "a"}}, replace | CHANGED, node.model("new"))
    assert node.actions(state) == {"gone@0": "stop", "label@0": "update", "swap@0": "replace", "new@0": "start"}
    node.apply(state)
    after = node.status()
    assert set(after) == {"keep@0", "label@0", "swap@0", "new@0"}
    assert {name: after[name]["pid"] == before[name]["pid"] for name in ("keep@0", "label@0", "swap@0")} == {
        "keep@0": True,
        "label@0": True,
        "swap@0": False,
    }
    assert {engine["phase"] for engine in after.values()} == {"ready"}
    assert node.actions(state) == {}


def test_one_of_three_that_cannot_be_started_stops_nobody_else(node: Node) -> None:
    bad = node.model("bad", stub={"EXIT": "7@0.1", "LISTEN_DELAY": 60, "ERROR": "ValueError: no room for the cache"})
    result = node.apply(node.state(node.model("a"), bad, node.model("b")), code=1)
    assert result.seconds < 5
    assert "failed: bad@0  start: exit code 7" in result.out
    assert "cause: ValueError: no room for the cache" in result.out
    assert "ok=2 changed=2 failed=1 blocked=0" in result.out
    assert {name: row["phase"] for name, row in node.status().items()} == {
        "a@0": "ready",
        "b@0": "ready",
        "bad@0": "failed",
    }


def test_a_failed_engine_is_tried_again_by_the_next_apply(node: Node) -> None:
    state = node.state(node.model(stub={"EXIT": "7@0.1", "LISTEN_DELAY": 60}))
    node.apply(state, code=1)
    node.tell(EXIT="", LISTEN_DELAY=0)
    assert "failed before (exit code 7); this apply tries it again" in node.llmgw("plan", state).out
    node.apply(state)
    assert node.engine()["phase"] == "ready"


def test_a_blocked_engine_that_runs_is_kept_as_it_runs(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    pid = node.engine()["pid"]
    node.state(chat | {"executable": "/nonexistent/vllm"})
    result = node.apply(state, code=1)
    assert "/nonexistent/vllm: No such file or directory" in result.out
    assert "kept as it runs" in result.out
    assert (node.engine()["pid"], node.engine()["phase"]) == (pid, "ready")


def test_the_place_of_an_engine_that_stops_for_good_goes_to_the_one_that_waits_for_it(node: Node) -> None:
    node.gpus(h100(0))
    old = node.model("old", stub={"MIB": 70000, "DRAIN_POLLS": 3, "GPU_MIB": 80000, "TERM_DELAY": 0.5})
    state = node.state(old)
    node.apply(state)
    node.state(node.model("new", stub={"MIB": 70000, "GPU_MIB": 80000}))
    node.apply(state)
    assert {name: row["phase"] for name, row in node.status().items()} == {"new@0": "ready"}


def test_a_start_does_not_wait_for_the_stop_of_an_engine_that_is_none_of_its_business(node: Node) -> None:
    slow = node.model("slow", stub={"TERM_DELAY": 1.5}, stop_grace="5s")
    other = node.model("other")
    state = node.state(slow, other)
    node.apply(state)
    node.state(node.model("new", gpus={"ids": ["7"]}), other)
    lines = node.llmgw("apply", state, "-o", "json").out
    finished = [event["engine"] for event in events(lines) if event["event"] == "action_finished"]
    assert finished.index("new@0") < finished.index("slow@0")


def test_events_are_one_json_document_a_line(node: Node) -> None:
    bad = node.model("bad", stub={"EXIT": "3@0.1", "LISTEN_DELAY": 60})
    found = events(node.llmgw("apply", node.state(node.model(), bad), "-o", "json", code=1).out)
    assert found[0]["event"] == "plan"
    assert [action["engine"] for action in found[0]["plan"]["actions"]] == ["bad@0", "chat@0"]
    assert {event["event"] for event in found} == {"plan", "action_started", "phase", "action_finished", "summary"}
    phases = [event["phase"] for event in found if event["event"] == "phase" and event["engine"] == "chat@0"]
    assert (phases[0], phases[-1]) == ("starting", "ready")
    ends = {event["engine"]: event for event in found if event["event"] == "action_finished"}
    assert (ends["chat@0"]["ok"], ends["chat@0"]["summary"]) == (True, "ready")
    assert (ends["bad@0"]["ok"], ends["bad@0"]["summary"]) == (False, "exit code 3")
    assert found[-1]["event"] == "summary"
    assert [(row["engine"], row["ok"]) for row in found[-1]["outcomes"]] == [("bad@0", False), ("chat@0", True)]
    assert found[-1]["digest"] == found[0]["plan"]["digest"]


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_wait_returns_while_the_engine_loads(node: Node, output: str) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 1}))
    result = node.llmgw("apply", state, "--no-wait", "-o", output)
    assert "not waited for" in result.out
    assert node.engine()["phase"] in ("starting", "loading")
    node.llmgw("wait", "chat")
    assert node.engine()["phase"] == "ready"


def test_no_wait_does_not_wait_for_an_engine_that_is_on_its_way_either(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 60}))
    node.apply(state, "--no-wait")
    assert node.apply(state, "--no-wait").seconds < 5


def test_an_apply_waits_for_an_engine_that_an_earlier_one_started(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 1}))
    node.apply(state, "--no-wait")
    pid = node.engine()["pid"]
    node.apply(state)
    assert (node.engine()["pid"], node.engine()["phase"]) == (pid, "ready")


def test_a_timeout_ends_the_waiting_and_not_the_engine(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 3}), node.model("quick"))
    result = node.apply(state, "--timeout", "1s", code=1)
    assert result.seconds < 3
    assert "not ready yet: the time-out of 1 s is over; its supervisor goes on" in result.out
    assert node.engine("quick@0")["phase"] == "ready"
    node.llmgw("wait", "chat")


def test_no_more_engines_start_at_once_than_asked_for(node: Node) -> None:
    models = [node.model(name, stub={"LISTEN_DELAY": 0.3}) for name in "abc"]
    lines = events(node.llmgw("apply", node.state(*models), "--parallel", "1", "-o", "json").out)
    steps = [(e["event"], e["engine"]) for e in lines if e["event"].startswith("action_")]
    assert steps == [(kind, f"{name}@0") for name in "abc" for kind in ("action_started", "action_finished")]


def test_a_target_is_carried_out_alone(node: Node) -> None:
    state = node.state(node.model("a", replicas=2), node.model("b"))
    result = node.apply(state, "--target", "a@1")
    assert "only part of the state is planned" in result.out
    assert set(node.status()) == {"a@1"}
    node.apply(state, "--target", "b", "--target", "a")
    assert set(node.status()) == {"a@0", "a@1", "b@0"}


def test_a_target_that_nobody_knows_is_refused(node: Node) -> None:
    result = node.llmgw("apply", node.state(node.model()), "--target", "chta", code=3)
    assert "unknown target: chta; the state and this node have chat@0" in result.err
    assert node.pids() == {}


def test_quiet_says_only_what_went_wrong(node: Node) -> None:
    state = node.state(node.model())
    assert node.apply(state, "-q").text == ""
    node.state(node.model("bad", stub={"EXIT": "3@0.1", "LISTEN_DELAY": 60}), node.model())
    result = node.apply(state, "-q", code=1)
    assert result.err == ""
    assert "failed: bad@0" in result.out


def test_verbose_shows_what_is_kept_and_the_environment(node: Node) -> None:
    state = node.state(node.model())
    assert "env.CUDA_VISIBLE_DEVICES" in node.apply(state, "-v").out
    assert "chat@0  keep" in node.apply(state, "-v").out


def test_records_of_engines_that_ended_and_are_not_wanted_go(node: Node) -> None:
    state = node.state(node.model("bad", stub={"EXIT": "3@0.1", "LISTEN_DELAY": 60}), node.model())
    node.apply(state, code=1)
    assert set(node.status()) == {"bad@0", "chat@0"}
    node.state(node.model())
    node.apply(state, "--target", "chat")
    assert set(node.status()) == {"bad@0", "chat@0"}
    node.apply(state)
    assert set(node.status()) == {"chat@0"}


def test_the_file_that_was_applied_is_kept_with_who_and_when(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    kept = node.state_dir / "applied"
    assert (kept / "state.yaml").read_bytes() == state.read_bytes()
    found = json.loads((kept / "applied.json").read_text())
    assert found["file"] == str(state)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", found["digest"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["at"])
    assert found["user"]


def test_everything_below_the_state_directory_is_private(node: Node) -> None:
    node.apply(node.state(node.model()))
    modes = {
        str(path.relative_to(node.state_dir)): oct(path.lstat().st_mode & 0o777)
        for path in [node.state_dir, *node.state_dir.rglob("*")]
        if not stat.S_ISSOCK(path.lstat().st_mode)
        and path.lstat().st_mode & 0o777 != (0o700 if path.is_dir() else 0o600)
    }
    assert modes == {}


def test_the_environment_of_the_caller_does_not_reach_an_engine(node: Node) -> None:
    view = node.root / "view.json"
    node.env |= {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1", "CUDA_VISIBLE_DEVICES": "7"}
    node.apply(node.state(node.model(stub={"VIEW": view})))
    seen = node.view(view)["env"]
    assert "HTTP_PROXY" not in seen
    assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-00000000-aaaa-4bbb-8ccc-dddddddddd00"
    assert seen["LLMGW_ENGINE"] == "chat@0"


def test_fifty_applies_side_by_side_give_one_engine(node: Node) -> None:
    state = node.state(node.model())
    for _ in range(25):
        both = [node.begin("apply", state), node.begin("apply", state)]
        ends = [(process.communicate(timeout=60), process.returncode) for process in both]
        assert sorted(code for _, code in ends) in ([0, 0], [0, 4]), ends
    assert len(node.stubs()) == 1
    assert node.engine()["phase"] == "ready"
