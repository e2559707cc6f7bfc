"""What was tried is known after a restart of the agent, and a record that cannot be believed is none."""

from __future__ import annotations

import json
import os

import pytest

from llmgw_reconcile.agent.attempts import Attempts, program_mark
from llmgw_reconcile.agent.restraint import Attempt
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.state_dir import StateDir

TRIED = Attempt("9f86d081", "vllm", failed=True)


@pytest.fixture
def state_dir(tmp_path):
    state_dir = StateDir(str(tmp_path / "state"))
    state_dir.create()
    return state_dir


def record(state_dir):
    return os.path.join(state_dir.root, "agent", "attempts.json")


def test_an_attempt_outlives_the_agent(state_dir):
    attempts = Attempts(state_dir)
    attempts.note("chat@0", TRIED)
    attempts.write()
    assert Attempts(state_dir).get("chat@0") == TRIED
    assert os.stat(record(state_dir)).st_mode & 0o777 == 0o600


def test_nothing_is_written_where_nothing_changed(state_dir):
    attempts = Attempts(state_dir)
    attempts.note("chat@0", TRIED)
    attempts.write()
    before = os.stat(record(state_dir)).st_ino
    attempts.note("chat@0", TRIED)
    attempts.write()
    assert os.stat(record(state_dir)).st_ino == before


@pytest.mark.parametrize(
    "forget", [lambda a: a.drop("chat@0"), lambda a: a.keep_only(["code@0"])], ids=["drop", "keep"]
)
def test_what_serves_or_is_no_more_is_forgotten(state_dir, forget):
    attempts = Attempts(state_dir)
    attempts.note("chat@0", TRIED)
    attempts.write()
    forget(attempts)
    attempts.write()
    assert Attempts(state_dir).get("chat@0") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format_version": 2}', '{"format_version": 1, "attempts": {"chat@0": {"spec": "x"}}}']
)
def test_a_record_that_cannot_be_believed_is_none(state_dir, text):
    os.mkdir(os.path.join(state_dir.root, "agent"), 0o700)
    with open(record(state_dir), "w") as file:
        file.write(text)
    assert Attempts(state_dir).get("chat@0") is None


def test_what_could_not_be_written_is_written_later(state_dir):
    attempts = Attempts(state_dir)
    attempts.note("chat@0", TRIED)
    folder = os.path.join(state_dir.root, "agent")
    with open(folder, "w"):
        pass
    with pytest.raises(NodeError):
        attempts.write()
    os.unlink(folder)
    attempts.write()
    with open(record(state_dir)) as file:
        assert json.load(file) == {
            "format_version": 1,
            "attempts": {"chat@0": {"spec": "9f86d081", "program": "vllm", "failed": True}},
        }


def test_a_program_is_marked_by_what_changes_when_it_is_installed_anew(tmp_path):
    program = tmp_path / "vllm"
    program.write_text("1")
    before = program_mark(str(program))
    assert program_mark(str(program)) == before
    program.unlink()
    program.write_text("2")
    assert program_mark(str(program)) != before


def test_a_boot_is_a_change_of_every_program(tmp_path):
    assert program_mark(str(tmp_path), lambda: "one") != program_mark(str(tmp_path), lambda: "two")


def test_a_program_that_is_gone_has_a_mark_too(tmp_path):
    assert program_mark(str(tmp_path / "gone"), lambda: "boot") == f"boot {tmp_path}/gone"
