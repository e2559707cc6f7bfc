"""Who is dead, and who is only busy."""

from __future__ import annotations

import signal

import pytest

from llmgw_reconcile.agent.liveness import Health, Liveness, health_of
from llmgw_reconcile.host.cpu_time import cpu_seconds
from llmgw_reconcile.host.state_dir import StateDir
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize(
    ("seen", "health"),
    [
        pytest.param({"answers": True, "in_hand": None, "share": None}, Health.SERVING, id="it-answers"),
        pytest.param({"answers": True, "in_hand": 9, "share": 1.0}, Health.SERVING, id="it-answers-under-load"),
        pytest.param({"answers": False, "in_hand": 3, "share": 0.0}, Health.BUSY, id="requests-in-hand"),
        pytest.param({"answers": False, "in_hand": None, "share": 0.9}, Health.BUSY, id="it-computes"),
        pytest.param({"answers": False, "in_hand": 0, "share": 0.9}, Health.BUSY, id="it-computes-for-nobody"),
        pytest.param({"answers": False, "in_hand": None, "share": 0.05}, Health.BUSY, id="it-computes-a-little"),
        pytest.param({"answers": False, "in_hand": None, "share": None}, Health.BUSY, id="nothing-is-known-yet"),
        pytest.param({"answers": False, "in_hand": None, "share": 0.04}, Health.SILENT, id="it-does-nothing"),
        pytest.param({"answers": False, "in_hand": 0, "share": 0.0}, Health.SILENT, id="it-has-nothing-in-hand"),
    ],
)
def test_a_round_says(seen, health):
    assert health_of(**seen) is health


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def liveness(node, clock):
    return Liveness(StateDir(str(node.state_dir)), node.env, clock)


def rounds(liveness, clock, count):
    """So many rounds, ten seconds apart; health and misses of each."""
    found = []
    for _ in range(count):
        clock.now += 10
        found += [(sign.health, sign.misses, sign.is_dead) for sign in liveness.look()]
    return found


def test_nobody_is_asked_where_no_state_asks_for_it(node, liveness):
    node.apply(node.state(node.model("chat")))
    liveness.watch({"chat@0": 0})
    assert liveness.look_at == float("inf")
    assert liveness.look() == ()


def test_an_engine_without_a_sign_of_life_is_dead_after_so_many_misses(node, liveness, clock):
    node.apply(node.state(node.model("chat")))
    liveness.watch({"chat@0": 2})
    assert liveness.look_at == clock.now + 10
    assert rounds(liveness, clock, 1) == [(Health.SERVING, 0, False)]
    node.tell("chat", HEALTH=503)
    assert rounds(liveness, clock, 2) == [(Health.SILENT, 1, False), (Health.SILENT, 2, True)]


def test_an_answer_begins_the_count_anew(node, liveness, clock):
    node.apply(node.state(node.model("chat")))
    liveness.watch({"chat@0": 2})
    node.tell("chat", HEALTH=503)
    assert rounds(liveness, clock, 2) == [(Health.BUSY, 0, False), (Health.SILENT, 1, False)]
    node.tell("chat")
    assert rounds(liveness, clock, 1) == [(Health.SERVING, 0, False)]
    node.tell("chat", HEALTH=503)
    assert rounds(liveness, clock, 1) == [(Health.SILENT, 1, False)]


def test_an_engine_with_requests_in_hand_is_busy_and_not_dead(node, liveness, clock):
    node.apply(node.state(node.model("chat")))
    liveness.watch({"chat@0": 1})
    node.tell("chat", HEALTH=503, RUNNING=3)
    assert rounds(liveness, clock, 3) == [(Health.BUSY, 0, False)] * 3
    node.tell("chat")  # at its end nobody waits for those requests


def test_a_new_run_is_counted_anew(node, liveness, clock):
    node.apply(node.state(node.model("chat")))
    liveness.watch({"chat@0": 3})
    node.tell("chat", HEALTH=503)
    assert rounds(liveness, clock, 3)[-1] == (Health.SILENT, 2, False)
    node.tell("chat")
    node.llmgw("restart", "chat")
    node.tell("chat", HEALTH=503)
    assert rounds(liveness, clock, 2) == [(Health.BUSY, 0, False), (Health.SILENT, 1, False)]


@pytest.mark.parametrize("stub", [{"LOAD_DELAY": 30}, {"LISTEN_DELAY": 30}], ids=["loads", "starts"])
def test_an_engine_that_was_not_ready_yet_is_not_asked(node, liveness, clock, stub):
    node.apply(node.state(node.model("chat", stub=stub)), "--no-wait")
    liveness.watch({"chat@0": 1})
    assert rounds(liveness, clock, 2) == []


def test_a_suspended_engine_shows_no_sign_of_life(node, liveness, clock):
    node.apply(node.state(node.model("chat")))
    liveness.watch({"chat@0": 1})
    rounds(liveness, clock, 1)
    node.kill(node.engine("chat@0")["pid"], signal.SIGSTOP)
    assert rounds(liveness, clock, 1) == [(Health.SILENT, 1, True)]


def test_time_on_the_processor_is_counted_over_all_processes_and_none_for_one_that_is_gone():
    assert cpu_seconds([1, 2**22 + 1]) == cpu_seconds([1]) > 0
