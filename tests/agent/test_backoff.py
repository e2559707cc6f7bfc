from llmgw_reconcile.agent.backoff import Backoff


def pauses(backoff, count, *, what="start", at=100.0):
    found = []
    for _ in range(count):
        backoff.note("chat@0", what, at)
        found.append(backoff.not_before("chat@0", what) - at)
        at = backoff.not_before("chat@0", what)
    return found


def test_what_was_never_tried_may_be_tried_now():
    assert Backoff().not_before("chat@0", "start") == 0.0


def test_the_pause_grows_up_to_five_minutes():
    assert pauses(Backoff(), 7) == [0.0, 10.0, 30.0, 60.0, 120.0, 300.0, 300.0]


def test_ten_calm_minutes_behind_the_pause_begin_the_count_anew():
    backoff = Backoff()
    backoff.note("chat@0", "start", 100.0)
    backoff.note("chat@0", "start", 699.0)
    assert backoff.not_before("chat@0", "start") == 709.0
    backoff.note("chat@0", "start", 1308.0)
    assert backoff.not_before("chat@0", "start") == 1338.0
    backoff.note("chat@0", "start", 1938.0)
    assert backoff.not_before("chat@0", "start") == 1938.0


def test_something_else_is_not_held_up():
    backoff = Backoff()
    pauses(backoff, 3)
    assert backoff.not_before("chat@0", "start of another entry") == 0.0
    assert backoff.not_before("code@0", "start") == 0.0


def test_engines_that_are_no_more_are_forgotten():
    backoff = Backoff()
    pauses(backoff, 3)
    backoff.keep_only(["code@0"])
    assert backoff.not_before("chat@0", "start") == 0.0
