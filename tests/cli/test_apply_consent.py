"""Whose word an apply needs: guards, the prompt, an approved plan, and the lock."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from tests.fakes import procs
from tests.fakes.node import LLMGW, Node

CHANGED = {"max_model_len": 2048}


def at_a_terminal(node: Node, answer: str, *args: object) -> tuple[int, str]:
    """Run llmgw at a terminal and type this when it asks; exit code and what was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [LLMGW, *map(str, args)], env=node.env, cwd=node.root, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while process.poll() is None or shown == b"":
            try:
                shown += os.read(ours, 4096)
            except OSError:  # its last descriptor is closed
                break
            if answer and b"Go on? [y/N]" in shown:
                os.write(ours, answer.encode())
                answer = ""
        return process.wait(30), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


# -- guards


@pytest.fixture
def three(node: Node) -> tuple[Node, Path]:
    """Three engines run: a, b and c."""
    state = node.state(*(node.model(name) for name in "abc"))
    node.apply(state)
    return node, state


def refused(node: Node, state: Path, *args: str) -> str:
    """What an apply says that refuses, after the plan, and touches no engine."""
    before = node.stubs()
    result = node.llmgw("apply", state, *args, code=3)
    assert node.stubs() == before
    assert "Plan: " in result.out or "No changes" in result.out
    assert "refused, nothing was changed: " in result.err
    return result.err


def test_stopping_most_of_what_runs_needs_max_stops(three: tuple[Node, Path]) -> None:
    node, state = three
    node.state(node.model("a"))
    error = refused(node, state, "-y")
    assert "2 of 3 running engines would stop for good: b@0, c@0" in error
    assert "hint: if that is meant, add --max-stops 2" in error
    refused(node, state, "--max-stops", "1")
    planned = node.llmgw("plan", state, code=0)
    assert "warning[too-many-stops]" in planned.out
    assert "an apply will refuse this: 2 of 3 running engines would stop for good: b@0, c@0" in planned.out


def test_max_stops_that_covers_them_lets_them_stop(three: tuple[Node, Path]) -> None:
    node, state = three
    node.state(node.model("a", port=node.engine("a@0")["port"]))
    node.apply(state, "--max-stops", "2")
    assert set(node.status()) == {"a@0"}


def test_an_empty_state_needs_allow_empty(three: tuple[Node, Path]) -> None:
    node, state = three
    node.state()
    assert "the state file has no models, while 3 engines run here: a@0, b@0, c@0" in refused(node, state)
    assert "add --allow-empty" in refused(node, state, "--max-stops", "3")
    node.apply(state, "--max-stops", "3", "--allow-empty")
    assert node.stubs() == {}


def test_a_protected_engine_is_neither_stopped_nor_replaced(node: Node) -> None:
    chat, other = node.model(protect=True), node.model("other")
    state = node.state(chat, other)
    node.apply(state)
    node.state(other)
    assert "it is recorded with `protect: true`, and this plan would stop it" in refused(node, state, "-y")
    node.state(chat | CHANGED, other)
    assert "this plan would replace it" in refused(node, state, "-y", "--max-stops", "9")
    node.state(chat | {"protect": False}, other)
    node.apply(state)
    node.state(other)
    node.apply(state)
    assert set(node.status()) == {"other@0"}


def test_a_state_for_another_node_is_refused_unless_this_node_is_called_so(node: Node) -> None:
    state = node.state(node.model(), node={"name": "gpu-07"})
    assert "the state file is for node gpu-07" in refused(node, state)
    assert "other-node" in node.llmgw("plan", state).out
    node.apply(state, "--node", "GPU-07.example.com")
    assert node.engine()["phase"] == "ready"


# -- the prompt


def test_a_person_at_a_terminal_is_asked_before_a_running_engine_is_replaced(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    pid = node.engine()["pid"]
    node.state(chat | CHANGED)
    code, shown = at_a_terminal(node, "n\n", "apply", state)
    assert (code, node.engine()["pid"]) == (3, pid)
    assert "This will replace chat@0. Go on? [y/N]" in shown
    assert "not approved; nothing was changed" in shown
    code, shown = at_a_terminal(node, "\x04", "apply", state)
    assert (code, node.engine()["pid"]) == (3, pid)
    code, shown = at_a_terminal(node, "y\n", "apply", state)
    assert (code, node.engine()["pid"] != pid) == (0, True)


@pytest.mark.parametrize("yes", ["-y", "--yes", "--auto-approve"])
def test_nobody_is_asked_who_has_said_yes(node: Node, yes: str) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    node.state(chat | CHANGED)
    code, shown = at_a_terminal(node, "", "apply", state, yes)
    assert code == 0
    assert "Go on?" not in shown


def test_nobody_is_asked_about_starts(node: Node) -> None:
    code, shown = at_a_terminal(node, "", "apply", node.state(node.model()))
    assert code == 0
    assert "Go on?" not in shown


def test_a_yes_counts_for_what_was_shown_only(node: Node) -> None:
    chat, other = node.model(), node.model("other")
    state = node.state(chat, other)
    node.apply(state)
    pid = node.engine()["pid"]
    node.state(chat | CHANGED, other)
    lost = node.engine("other@0")["pid"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [LLMGW, "apply", str(state)], env=node.env, cwd=node.root, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        shown = b""
        while b"Go on? [y/N]" not in shown:
            shown += os.read(ours, 4096)
        node.kill(node.supervisor_named("other@0"))
        node.kill(lost)
        os.write(ours, b"y\n")
        assert process.wait(30) == 3
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert node.engine()["pid"] == pid


# -- a state from standard input


def test_a_state_from_standard_input_may_start_engines(node: Node) -> None:
    state = node.state(node.model())
    node.llmgw("apply", "-", stdin=state.read_text())
    assert node.engine()["phase"] == "ready"


def test_a_state_from_standard_input_that_replaces_engines_needs_a_yes(node: Node) -> None:
    chat = node.model()
    node.apply(node.state(chat))
    pid = node.engine()["pid"]
    changed = node.state(chat | CHANGED).read_text()
    result = node.llmgw("apply", "-", stdin=changed, code=3)
    assert "this state, from standard input, stops or replaces engines: say so with -y" in result.err
    assert node.engine()["pid"] == pid
    node.llmgw("apply", "-", "-y", stdin=changed)
    assert node.engine()["pid"] != pid


# -- an approved plan


def test_a_saved_plan_is_carried_out_once_and_wherever_it_was_saved(node: Node) -> None:
    state = node.state(node.model())
    node.llmgw("plan", state, "--out", "plan.json")
    assert (node.root / "plan.json").stat().st_mode & 0o777 == 0o600
    state.unlink()
    node.llmgw("apply", "plan.json")
    assert node.engine()["phase"] == "ready"
    result = node.llmgw("apply", "plan.json", code=3)
    assert "the plan is stale" in result.err


def test_a_saved_plan_passes_the_guards_that_a_review_answers(three: tuple[Node, Path]) -> None:
    node, state = three
    node.state(node.model("a", port=node.engine("a@0")["port"]))
    node.llmgw("plan", state, "--out", "plan.json")
    node.llmgw("apply", "plan.json")
    assert set(node.status()) == {"a@0"}


def test_a_saved_plan_is_refused_when_an_engine_has_ended_since(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    node.state(chat | CHANGED)
    node.llmgw("plan", state, "--out", "plan.json")
    node.llmgw("stop", "chat")
    node.llmgw("apply", "plan.json", code=3)
    assert node.stubs() == {}


def test_expect_names_the_digest_of_the_plan_that_was_approved(node: Node) -> None:
    state = node.state(node.model())
    digest = node.plan(state)["digest"]
    assert "the plan is stale" in node.llmgw("apply", state, "--expect", "sha256:0", code=3).err
    assert node.stubs() == {}
    node.llmgw("apply", state, "--expect", digest)
    assert node.engine()["phase"] == "ready"


def test_a_saved_plan_that_is_not_the_expected_one_is_refused(node: Node) -> None:
    state = node.state(node.model())
    node.llmgw("plan", state, "--out", "plan.json")
    result = node.llmgw("apply", "plan.json", "--expect", "sha256:0", code=3)
    assert "sha256:0 was approved" in result.err
    node.llmgw("apply", "plan.json", "--expect", node.plan(state)["digest"])


def test_a_saved_plan_takes_its_targets_along(node: Node) -> None:
    state = node.state(node.model("a"), node.model("b"))
    node.llmgw("plan", state, "--target", "b", "--out", "plan.json")
    assert "--target goes with `llmgw plan --out`" in node.llmgw("apply", "plan.json", "--target", "a", code=3).err
    node.llmgw("apply", "plan.json")
    assert set(node.status()) == {"b@0"}


def test_a_damaged_plan_is_refused(node: Node) -> None:
    state = node.state(node.model())
    node.llmgw("plan", state, "--out", "plan.json")
    plan = node.root / "plan.json"
    plan.write_text(plan.read_text().replace('"digest"', '"gone"'))
    assert "it is not a whole saved plan" in node.llmgw("apply", "plan.json", code=3).err
    plan.write_text(plan.read_text()[:200])
    node.llmgw("apply", "plan.json", code=3)
    assert node.pids() == {}


# -- the lock


def test_a_second_apply_is_told_who_is_at_work(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 60}))
    first = node.begin("apply", state)
    procs.until(node.stubs)
    busy = node.apply(state, code=4)
    assert f"pid {first.pid}" in busy.err
    assert "llmgw apply of" in busy.err
    first.kill()
    first.communicate()


def test_who_waits_for_readiness_holds_up_only_those_engines(node: Node) -> None:
    slow, quick = node.model("slow", stub={"LISTEN_DELAY": 60}), node.model("quick")
    state = node.state(slow, quick)
    first = node.begin("apply", state)
    procs.until(lambda: node.status().get("quick@0", {}).get("phase") == "ready")
    node.llmgw("plan", state)
    assert f"pid {first.pid}" in node.llmgw("stop", "slow", code=4).err
    first.kill()
    first.communicate()
    node.llmgw("stop", "slow")


def test_lock_timeout_waits_for_the_other_one(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 1.5}))
    first = node.begin("apply", state)
    procs.until(node.stubs)
    node.apply(state, "--lock-timeout", "30s")
    first.communicate(timeout=30)
    assert first.returncode == 0
    assert len(node.stubs()) == 1


def test_the_lock_goes_with_its_holder(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 1}))
    first = node.begin("apply", state)
    procs.until(node.stubs)
    first.kill()
    first.communicate()
    began = time.monotonic()
    node.apply(state)
    assert time.monotonic() - began < 10
    assert len(node.stubs()) == 1
