"""The journal as its readers see it: who did what to which engine, from what and why, whatever happened on the way."""

from __future__ import annotations

import json
import os
import pwd
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.node import Json, Node
from tests.fakes.procs import until

COMMIT = "5f0b02c7d1e95f0b02c7d1e95f0b02c7d1e95f0b"
ME = pwd.getpwuid(os.geteuid()).pw_name


def events(node: Node, *args: Any) -> list[Json]:
    return [json.loads(line) for line in node.llmgw("events", "-o", "json", *args).out.splitlines()]


def short(event: Json) -> tuple[str, ...]:
    return event["action"], event["engine"], event["result"], event["detail"]


def test_each_action_is_a_line_from_the_first_start_to_the_last_stop(node: Node) -> None:
    chat, embed = node.model(), node.model("embed")
    state = node.state(chat, embed)
    node.apply(state)
    node.apply(state)
    node.apply(node.state(chat | {"labels": {"team": "search"}}, embed | {"max_model_len": 4096}))
    node.kill(node.supervisor_of(node.engine()["pid"]))
    node.apply(node.state(chat | {"labels": {"team": "search"}}))
    assert sorted(map(short, events(node))) == [
        ("adopt", "chat@0", "done", "ready"),
        ("replace", "embed@0", "done", "ready"),
        ("start", "chat@0", "done", "ready"),
        ("start", "embed@0", "done", "ready"),
        ("stop", "embed@0", "done", "stopped on SIGTERM"),
        ("update", "chat@0", "done", "updated"),
    ]


def test_a_line_says_who_did_it_from_what_and_why(node: Node) -> None:
    (node.root / ".git").mkdir()
    (node.root / ".git/HEAD").write_text(f"{COMMIT}\n")
    node.env["SUDO_USER"] = "alice"
    state = node.state(node.model())
    digest = node.plan(state)["digest"]
    node.apply(state, "--reason", "new\n template  of\tthe day")
    (event,) = events(node)
    assert event.pop("at").endswith("Z")
    assert 0 < event.pop("seconds") < 60
    assert event == {
        "format_version": 1,
        "node": os.uname().nodename,
        "engine": "chat@0",
        "action": "start",
        "result": "done",
        "detail": "ready",
        "command": "llmgw apply",
        "user": ME,
        "sudo_user": "alice",
        "state": str(state),
        "commit": COMMIT,
        "plan": digest,
        "reason": "new template of the day",
    }
    (line,) = node.llmgw("events").out.splitlines()
    assert "  start    chat@0              done: ready, " in line
    assert line.endswith(
        f"(alice as {ME}: llmgw apply {state}, commit 5f0b02c7d1e9, plan {digest[7:19]}: new template of the day)"
    )


def test_what_is_done_by_hand_is_told_too(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.llmgw("stop", "chat", "--reason", "maintenance")
    node.llmgw("restart", "chat", "--reason", "over")
    node.llmgw("restart", "chat")
    assert [(*short(event), event["command"], event["reason"]) for event in events(node, "-n", "3")] == [
        ("stop", "chat@0", "done", "stopped on SIGTERM, held", "llmgw stop", "maintenance"),
        ("start", "chat@0", "done", "ready", "llmgw restart", "over"),
        ("replace", "chat@0", "done", "ready", "llmgw restart", None),
    ]


def test_a_replacement_in_vain_says_that_it_was_rolled_back_and_what_was_not_tried_says_so(node: Node) -> None:
    first, second = node.model("a"), node.model("b")
    node.apply(node.state(first, second))
    broken = {"env": first["env"] | {"STUB_EXIT": "7@0"}}
    node.apply(node.state(first | broken, second | {"max_model_len": 4096}), code=1)
    failed, untried = events(node, "-n", "2")
    assert short(failed)[:3] == ("replace", "a@0", "failed")
    assert failed["detail"].startswith("exit code 7")
    assert "rolled back to its previous launch, which is ready" in failed["detail"]
    assert short(untried) == ("replace", "b@0", "not-tried", "a@0 did not get ready")
    assert untried["seconds"] is None


def test_an_engine_is_found_by_either_name_also_when_it_is_gone(node: Node) -> None:
    chat = node.model(replicas=2)
    node.apply(node.state(chat, node.model("embed")))
    node.apply(node.state(chat | {"replicas": 1}, node.model("embed")), code=None)
    assert {event["engine"] for event in events(node, "--engine", "chat")} == {"chat@0", "chat@1"}
    assert [short(event)[0] for event in events(node, "--engine", "chat@1")] == ["start", "stop"]
    assert events(node, "--engine", "nobody") == []
    assert len(events(node, "--engine", "chat", "-n", "1")) == 1


def test_what_is_done_later_is_followed(node: Node) -> None:
    node.apply(node.state(node.model()))
    follower = node.begin("events", "-f", "-o", "json")
    assert follower.stdout is not None
    try:
        assert json.loads(follower.stdout.readline())["action"] == "start"
        node.llmgw("stop", "chat")
        assert json.loads(follower.stdout.readline())["action"] == "stop"
    finally:
        follower.send_signal(signal.SIGTERM)
        _, err = follower.communicate(timeout=10)
    assert follower.returncode == 143
    assert "Traceback" not in err


def test_a_node_where_nothing_was_done_has_no_events(node: Node) -> None:
    assert node.llmgw("events").out == ""
    assert not node.state_dir.exists()


def test_the_journal_is_private_and_holds_no_secret(node: Node) -> None:
    key = node.root / "key"
    key.write_text("c4n4ry-of-a-key\n")
    key.chmod(0o600)
    broken = node.model(api_key={"file": str(key)}, stub={"EXIT": "7@0", "ERROR": "bad key c4n4ry-of-a-key"})
    node.apply(node.state(broken), code=1)
    journal = node.state_dir / "journal.jsonl"
    assert journal.stat().st_mode & 0o777 == 0o600
    assert "c4n4ry" not in journal.read_text()
    assert short(events(node)[0])[:3] == ("start", "chat@0", "failed")


def test_a_journal_that_cannot_be_kept_is_said_once_and_stops_nothing(node: Node) -> None:
    node.state_dir.mkdir(mode=0o700)
    (node.state_dir / "journal.jsonl").mkdir()
    result = node.apply(node.state(node.model(), node.model("embed")))
    assert result.err.count("the journal is not kept: cannot write") == 1
    assert {row["phase"] for row in node.status().values()} == {"ready"}
    assert "cannot read" in node.llmgw("events", code=1).err


def test_a_torn_line_costs_that_line_alone(node: Node) -> None:
    node.apply(node.state(node.model()))
    with open(node.state_dir / "journal.jsonl", "a") as journal:
        journal.write('{"format_version":1,"engi')
    node.llmgw("stop", "chat")
    assert [short(event)[0] for event in events(node)] == ["start", "stop"]


def test_the_last_apply_is_recorded_with_its_commit_and_whether_it_succeeded(node: Node) -> None:
    (node.root / ".git").mkdir()
    (node.root / ".git/HEAD").write_text(f"{COMMIT}\n")

    def applied() -> tuple[Any, ...]:
        found = json.loads(Path(node.state_dir / "applied/applied.json").read_text())
        return found["commit"], found["ok"]

    node.apply(node.state(node.model()))
    assert applied() == (COMMIT, True)
    node.apply(node.state(node.model(executable="/nowhere/vllm")), code=1)
    assert applied() == (COMMIT, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_nobody_waits_for_is_told_all_the_same(node: Node, number: signal.Signals) -> None:
    node.apply(node.state(node.model(stub={"TERM_DELAY": 1}, stop_grace="10s")))
    stop = node.begin("stop", "chat")
    until(lambda: node.engine()["phase"] == "stopping")
    stop.send_signal(number)
    stop.communicate(timeout=10)
    assert stop.returncode == 128 + number
    detail = "asked to stop, and not waited for: interrupted"
    assert short(events(node, "-n", "1")[0]) == ("stop", "chat@0", "done", detail)
    until(lambda: node.engine()["pid"] is None)
