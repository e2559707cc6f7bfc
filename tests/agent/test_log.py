"""Calm lines: each with its time, the same thing only once."""

from __future__ import annotations

import json

import pytest

from llmgw_reconcile.agent.log import AgentLog
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.workflow.report import Sighting

NOON = "2026-03-01T12:00:00Z"


def new_log(*, as_json=False):
    lines = []
    return AgentLog(lines.append, as_json=as_json, now=lambda: NOON), lines


def test_a_line_begins_with_its_time_in_utc():
    log, lines = new_log()
    log.say("work", "something happens", engine="chat@0")
    assert lines == [f"{NOON} something happens"]


def test_an_event_is_one_json_line_with_its_facts():
    log, lines = new_log(as_json=True)
    log.say("work", "two\nlines", engine="chat@0")
    assert [json.loads(line) for line in lines] == [
        {"event": "work", "at": NOON, "message": "two\nlines", "engine": "chat@0"}
    ]


def test_escapes_of_others_reach_no_terminal():
    log, lines = new_log()
    log.say("work", "red \x1b[31mtext\x07")
    assert lines == [f"{NOON} red text\\x07"]


def test_the_same_thing_is_said_once_and_again_after_it_was_over():
    log, lines = new_log()
    for _ in range(3):
        log.say_once(("state",), "state_refused", "broken")
    assert log.settle("state")
    assert not log.settle("state")
    log.say_once(("state",), "state_refused", "broken")
    assert lines == [f"{NOON} broken", f"{NOON} broken"]


def test_something_else_on_the_same_topic_is_said():
    log, lines = new_log()
    log.say_once(("state",), "state_refused", "broken")
    log.say_once(("state",), "state_refused", "missing")
    assert lines == [f"{NOON} broken", f"{NOON} missing"]


def test_a_phase_is_said_when_it_changes():
    log, lines = new_log()
    for phase in (Phase.STARTING, Phase.STARTING, Phase.READY, Phase.READY):
        log.phase("chat@0", phase, "")
    log.phase("chat@0", Phase.BACKOFF, "exit code 3")
    assert lines == [f"{NOON} chat@0: starting", f"{NOON} chat@0: ready", f"{NOON} chat@0: backoff: exit code 3"]


def test_what_an_apply_waits_for_is_not_told_again_by_the_watch():
    log, lines = new_log()
    log.waiting(Sighting("chat@0", Phase.LOADING, "", 1.0, ""))
    log.waiting(Sighting("chat@0", Phase.READY, "", 2.0, ""))
    log.action_finished("chat@0", ActionKind.REPLACE, ok=True, summary="ready", seconds=2.0)
    log.phase("chat@0", Phase.READY, "")
    assert lines == [f"{NOON} chat@0: loading", f"{NOON} chat@0: ready (2s)"]


def test_a_start_that_is_not_waited_for_ends_without_a_word():
    log, lines = new_log()
    log.action_finished("chat@0", ActionKind.START, ok=True, summary="not ready yet: interrupted", seconds=0.1)
    assert lines == []


def test_a_failure_is_told():
    log, lines = new_log()
    log.action_finished("chat@0", ActionKind.START, ok=False, summary="exit code 2", seconds=0.1)
    assert lines == [f"{NOON} chat@0: failed: exit code 2 (0.1s)"]


def test_a_replacement_is_under_way_until_it_is_finished():
    log, _ = new_log()
    log.action_started(Action(ActionKind.START, "code@0", "not running"))
    log.action_started(Action(ActionKind.REPLACE, "chat@0", "dtype changed"))
    assert log.rolling == {"chat@0"}
    log.comes_back("chat@0", "exit code 2")
    assert log.rolling == {"chat@0"}
    log.action_finished("chat@0", ActionKind.REPLACE, ok=False, summary="rolled back", seconds=1.0)
    assert log.rolling == set()


@pytest.mark.parametrize("topic", [("left", "chat@0"), ("pulse", "chat@0")], ids=["left", "pulse"])
def test_engines_that_are_no_more_are_forgotten(topic):
    log, lines = new_log()
    log.say_once(topic, "x", "words")
    log.phase("chat@0", Phase.READY, "")
    log.keep_only(["code@0"])
    log.say_once(topic, "x", "words")
    log.phase("chat@0", Phase.READY, "")
    assert lines == [f"{NOON} words", f"{NOON} chat@0: ready"] * 2
