"""`llmgw apply --last`: after a boot exactly what was applied comes back."""

from __future__ import annotations

import json

import pytest

from tests.fakes.procs import until


def end_all(node):
    """What a power cut leaves: records, and nothing that lives."""
    for row in node.status().values():
        supervisor = node.supervisor_of(row["pid"])
        node.kill(supervisor)
        node.kill(row["pid"])
    until(lambda: not node.stubs(), what="all engines have ended")


def about(node):
    return json.loads((node.state_dir / "applied" / "applied.json").read_text())


def test_what_was_applied_comes_back_though_its_file_is_edited_or_gone(node):
    (node.root / "x.jinja").write_text("template\n")
    chat = node.model("chat", args=["--chat-template", {"file": "x.jinja"}])
    state = node.state(chat, node.model("code"))
    node.apply(state)
    before = about(node)
    node.state(node.model("other"))
    end_all(node)
    node.llmgw("apply", "--last")
    assert {name: row["phase"] for name, row in node.status().items()} == {"chat@0": "ready", "code@0": "ready"}
    assert about(node) == before
    state.unlink()
    assert "No changes. 2 engines run as the state file says." in node.llmgw("apply", "--last").out


def test_it_waits_for_nobody_when_told_so(node):
    node.apply(node.state(node.model("chat")))
    end_all(node)
    node.tell("chat", LOAD_DELAY=2)
    node.llmgw("apply", "--last", "--no-wait")
    assert node.engine("chat@0")["phase"] in ("starting", "loading")


def test_where_nothing_was_applied_it_says_so(node):
    assert node.llmgw("apply", "--last", code=3).err == "llmgw: nothing was applied on this node yet\n"
    assert not node.state_dir.exists()


@pytest.mark.parametrize("arguments", [(), ("node.yaml", "--last")], ids=["neither", "both"])
def test_a_file_or_the_last_one_is_named(node, arguments):
    assert "name a state file, or say --last" in node.llmgw("apply", *arguments, code=64).err
