"""What the loop does and says, told on a node that exists in memory."""

from __future__ import annotations

from itertools import pairwise

import pytest

from llmgw_reconcile.model.observed import Phase
from tests.agent.simulation import LOAD_SECONDS, STEP, Day, Node

CHAT = {"name": "chat", "model": "acme/chat", "engine": "vllm", "port": 8000}
CODE = {"name": "code", "model": "acme/code", "engine": "vllm", "port": 8001}
BAD = {**CHAT, "args": ["--bad"]}
SOON = 5.0


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path, seed=1)


@pytest.fixture
def day(node):
    return Day(node)


def run(day, seconds):
    """Let the agent run for so long; what it said, without times and without its first and last words."""
    day.lines.clear()
    day.run_until(day.node.clock.now + seconds)
    lines = [line.partition(" ")[2] for line in day.lines]
    return [
        line for line in lines if not line.startswith(("reconciling every", "ends as asked", "the node is held to"))
    ]


def serve(day, *models):
    day.node.write_models(list(models))
    run(day, LOAD_SECONDS + 60)


def later(day, seconds, happens):
    day.node.blow, day.node.blow_at = happens, day.node.clock.now + seconds


def test_it_starts_what_the_file_asks_for_and_does_not_wait_for_it(node, day):
    node.write_models([CHAT])
    assert run(day, SOON) == ["chat@0: start: not running", "chat@0: starting"]
    assert run(day, LOAD_SECONDS) == ["chat@0: ready"]


def test_a_restart_of_the_agent_changes_nothing(node, day):
    serve(day, CHAT, CODE)
    runs = node.runs
    for _ in range(3):
        assert run(day, 200) == []
    assert node.runs == runs


def test_an_edit_is_followed_within_two_seconds(node, day):
    serve(day, CHAT)
    later(day, 10, lambda: node.write_models([CHAT, CODE]))
    assert run(day, 12) == ["code@0: start: not running", "code@0: starting"]


def test_an_engine_is_started_while_another_one_still_loads(node, day):
    node.write_models([CHAT])
    later(day, 10, lambda: node.write_models([CHAT, CODE]))
    run(day, 12)
    assert node.engines["chat@0"].phase is Phase.STARTING
    assert "code@0" in node.engines


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: [broken\n", "error[yaml-syntax]"),
        ("", "error["),
        ("version: 1\nmodels: []\n", "the state file has no models, while 2 engines run here: chat@0, code@0"),
    ],
    ids=["broken", "empty", "without-models"],
)
def test_a_bad_file_keeps_the_last_good_state_and_is_complained_of_once(node, day, text, words):
    serve(day, CHAT, CODE)
    later(day, 10, lambda: node.write(text))
    said = run(day, 600)
    assert words in said[0]
    assert said[-1] == "the last good state stays in force"
    assert len([line for line in said if words in line]) == 1
    assert all(engine.phase is Phase.READY for engine in node.engines.values())


def test_the_last_good_state_is_still_enforced(node, day):
    serve(day, CHAT)
    node.file.unlink()

    def kill_the_supervisor():
        node.engines["chat@0"].supervisor = False

    later(day, 10, kill_the_supervisor)
    assert "chat@0: adopt: it runs without a supervisor; it gets a new one" in run(day, 12)
    assert node.engines["chat@0"].supervisor


def test_a_new_agent_holds_the_node_to_what_was_applied_last_while_the_file_is_broken(node, day):
    serve(day, CHAT)
    node.write("models: [broken\n")
    node.engines["chat@0"].end(Phase.STOPPED)
    run(day, SOON)
    assert node.engines["chat@0"].phase is Phase.STARTING


def test_a_launch_that_failed_is_not_tried_again(node, day):
    node.write_models([BAD])
    said = run(day, 3600)
    assert said[-1] == (
        "chat@0: it failed and is not tried again as it stands; "
        "change its entry or its program, or say `llmgw restart chat@0`"
    )
    assert node.bad_runs == 1
    run(day, 3600)
    assert node.bad_runs == 1


def test_a_replacement_that_failed_is_rolled_back_and_not_tried_again(node, day):
    serve(day, CHAT)
    later(day, 10, lambda: node.write_models([BAD]))
    said = run(day, 3600)
    assert "chat@0: exit code 2; its previous launch is started again" in said
    assert node.bad_runs == 1
    assert node.engines["chat@0"].phase is Phase.READY
    run(day, 3600)
    assert node.bad_runs == 1


def test_an_entry_that_comes_back_after_it_was_taken_back_is_tried_again(node, day):
    serve(day, CHAT)
    later(day, 10, lambda: node.write_models([BAD]))
    run(day, 200)
    later(day, 10, lambda: node.write_models([CHAT]))
    run(day, 200)
    later(day, 10, lambda: node.write_models([BAD]))
    run(day, 200)
    assert node.bad_runs == 2


def test_what_a_person_stopped_stays_stopped(node, day):
    serve(day, CHAT, CODE)
    node.engines["chat@0"].end(Phase.STOPPED)
    node.engines["chat@0"].held = True
    later(day, 10, lambda: node.write_models([{**CHAT, "max_model_len": 4096}, CODE]))
    assert "chat@0: held: it was stopped by hand; `llmgw restart chat@0` or an apply starts it" in run(day, 3600)
    assert node.engines["chat@0"].phase is Phase.STOPPED


def test_what_ends_unwatched_again_and_again_is_started_at_growing_intervals(node, day, monkeypatch):
    node.write_models([CHAT])
    starts, start = [], node.start
    monkeypatch.setattr(node, "start", lambda *arguments: (starts.append(node.clock.now), start(*arguments)))
    later(day, 0, lambda: [engine.end(Phase.STOPPED) for engine in node.engines.values()])
    run(day, 1200)
    pauses = [after - before for before, after in pairwise(starts)]
    assert len(pauses) >= 6
    assert all(
        least <= pause <= least + STEP for least, pause in zip((0, 10, 30, 60, 120, 300), pauses, strict=False)
    ), pauses


def test_another_command_that_holds_the_lock_is_waited_for(node, day):
    node.write_models([CHAT])
    node.is_busy = True
    assert run(day, 60) == ["busy: llmgw apply of somebody; tries again"]
    later(day, 0, lambda: setattr(node, "is_busy", False))
    assert "chat@0: start: not running" in run(day, 5)


def test_a_full_disk_is_said_once_and_starts_nothing(node, day):
    node.write_models([CHAT])
    node.disk_is_full = True
    assert run(day, 600) == ["cannot write: No space left on device; tries again"]
    assert node.engines == {}


def test_an_engine_that_hangs_is_replaced_only_where_the_state_asks(node, day):
    serve(day, {**CHAT, "liveness": {"failures": 3}}, CODE)
    runs = {name: engine.run for name, engine in node.engines.items()}

    def hang():
        for engine in node.engines.values():
            engine.hung = True

    later(day, 0, hang)
    said = run(day, 120)
    assert "chat@0: degraded: no answer (silent)" in said
    assert node.engines["chat@0"].run != runs["chat@0"]
    assert node.engines["code@0"].run == runs["code@0"]


def test_more_stops_than_a_guard_allows_are_refused_until_a_person_makes_them(node, day):
    more = [{**CHAT, "name": f"m{n}", "port": 8010 + n} for n in range(4)]
    serve(day, *more)
    later(day, 10, lambda: node.write_models(more[:1]))
    said = run(day, 600)
    assert said[0].startswith("gpu-07: 3 of 4 running engines would stop for good")
    assert len(node.engines) == 4
    for name in ("m1@0", "m2@0", "m3@0"):  # by hand: llmgw apply --max-stops 3
        del node.engines[name]
    run(day, 600)
    assert list(node.engines) == ["m0@0"]
