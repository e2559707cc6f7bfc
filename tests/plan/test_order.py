"""No start before its GPUs and its port are free, whoever has them and whoever waits for whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.model.observed import ObservedEngine
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.order import Step, start_steps
from tests.plan.builders import LEADER, ended, gpu, running, spec

Place = tuple[tuple[int, ...], int]  # cards and port


def action(kind: ActionKind, name: str, cards: tuple[int, ...], port: int) -> Action:
    return Action(kind, f"{name}@0", "", gpus=tuple(f"GPU-{card}" for card in cards), port=port)


def observed(name: str, cards: tuple[int, ...], port: int) -> ObservedEngine:
    return running(spec(name, port=port), *map(gpu, cards))


def steps_of(before: dict[str, Place], after: dict[str, Place], *, stays: tuple[str, ...] = ()) -> tuple[Step, ...]:
    """The steps from what runs to what is wanted; what is wanted nowhere stops, what `stays` is kept."""
    actions = [action(ActionKind.STOP, name, *place) for name, place in before.items() if name not in after]
    actions += [
        action(ActionKind.REPLACE if name in before else ActionKind.START, name, *place)
        for name, place in after.items()
        if name not in stays
    ]
    return start_steps(actions, {f"{name}@0": observed(name, *place) for name, place in before.items()})


def names(steps: tuple[Step, ...]) -> list[tuple[str, ...]]:
    return [tuple(action.engine.removesuffix("@0") for action in step.actions) for step in steps]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            {"a": ((0,), 8000), "b": ((1,), 8001)},
            {"a": ((1,), 8000), "b": ((0,), 8001)},
            [("a", "b")],
            id="a-swap-of-cards",
        ),
        pytest.param(
            {"a": ((0,), 8000), "b": ((1,), 8001)},
            {"a": ((0,), 8001), "b": ((1,), 8000)},
            [("a", "b")],
            id="a-swap-of-ports",
        ),
        pytest.param(
            {"a": ((0,), 8000), "b": ((1,), 8001), "c": ((2,), 8002)},
            {"a": ((1,), 8000), "b": ((2,), 8001), "c": ((0,), 8002)},
            [("a", "b", "c")],
            id="a-cycle",
        ),
        pytest.param(
            {"a": ((0,), 8000), "b": ((1,), 8001)},
            {"a": ((1,), 8000), "b": ((2,), 8001), "new": ((0,), 8002)},
            [("a", "b", "new")],
            id="a-chain",
        ),
        pytest.param(
            {"a": ((0,), 8000), "b": ((1,), 8001)},
            {"a": ((0,), 8000), "b": ((1,), 8001), "new": ((2,), 8002)},
            [("a",), ("b",), ("new",)],
            id="nobody-needs-anothers",
        ),
        pytest.param(
            {"a": ((0, 1), 8000), "c": ((4,), 8003)},
            {"a": ((0,), 8000), "new": ((1,), 8002), "c": ((4,), 8004)},
            [("a", "new"), ("c",)],
            id="a-shrinking-one-makes-room",
        ),
    ],
)
def test_what_needs_each_others_place_is_one_step(
    before: dict[str, Place], after: dict[str, Place], expected: list[tuple[str, ...]]
) -> None:
    steps = steps_of(before, after)
    assert names(steps) == expected
    assert all(step.after == () for step in steps)


def test_two_groups_that_a_third_engine_ties_together_are_one_step() -> None:
    before = {"a": ((0,), 8000), "b": ((1,), 8001), "c": ((2, 3), 8002)}
    after = {"a": ((2,), 8000), "b": ((3,), 8001), "c": ((0, 1), 8002)}
    assert names(steps_of(before, after)) == [("a", "b", "c")]


def test_a_start_in_the_place_of_an_engine_that_stops_for_good_waits_for_that() -> None:
    (step,) = steps_of({"old": ((0,), 8000), "other": ((1,), 8001)}, {"new": ((0,), 8005)})
    assert (step.after, step.rolls) == (("old@0",), False)


def test_a_replacement_rolls_and_a_start_does_not() -> None:
    steps = steps_of({"a": ((0,), 8000)}, {"a": ((0,), 8000), "new": ((1,), 8001)})
    assert [step.rolls for step in steps] == [True, False]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(ended(spec("old"), gpus=("GPU-0",)), (), id="ended"),
        pytest.param(ended(spec("old"), gpus=("GPU-0",), leftovers=(LEADER,)), ("old@0",), id="left-overs"),
        pytest.param(ended(spec("old"), gpus=("GPU-0",), supervisor=LEADER), ("old@0",), id="its-supervisor-lives"),
    ],
)
def test_only_what_lives_holds_anything(seen: ObservedEngine, expected: tuple[str, ...]) -> None:
    actions = [action(ActionKind.STOP, "old", (0,), 8000), action(ActionKind.START, "new", (0,), 8000)]
    (step,) = start_steps(actions, {"old@0": seen})
    assert step.after == expected


@st.composite
def moves(draw: st.DrawFn) -> tuple[dict[str, Place], dict[str, Place]]:
    """What runs before and after: in either, no card and no port is used twice; what is in both alike, is kept."""
    return draw(_places()), draw(_places())


@st.composite
def _places(draw: st.DrawFn) -> dict[str, Place]:
    cards, ports = draw(st.permutations(range(8))), draw(st.permutations(range(8000, 8008)))
    places = {}
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True)):
        size = min(draw(st.integers(1, 3)), len(cards))
        if size:
            places[name], cards = (tuple(cards[:size]), ports.pop()), cards[size:]
    return places


def kept(before: dict[str, Place], after: dict[str, Place]) -> tuple[str, ...]:
    return tuple(name for name in after if before.get(name) == after[name])


@given(moves(), st.randoms(use_true_random=False))
def test_no_start_finds_its_card_or_port_in_use(
    change: tuple[dict[str, Place], dict[str, Place]], random: object
) -> None:
    """In whichever order the steps are carried out, as long as each waits for the stops that it names."""
    before, after = change
    steps = list(steps_of(before, after, stays=kept(before, after)))
    random.shuffle(steps)  # type: ignore[attr-defined]
    live = dict(before)
    for step in steps:
        for engine in step.after:
            live.pop(engine.removesuffix("@0"), None)
        for one in step.actions:
            live.pop(one.engine.removesuffix("@0"), None)
        for one in step.actions:
            name = one.engine.removesuffix("@0")
            cards, port = after[name]
            used = {card for others, _ in live.values() for card in others}
            assert used.isdisjoint(cards)
            assert port not in {other for _, other in live.values()}
            live[name] = after[name]
    assert live.items() >= after.items()


@given(moves())
def test_every_start_and_replacement_is_in_one_step(change: tuple[dict[str, Place], dict[str, Place]]) -> None:
    before, after = change
    stays = kept(before, after)
    done = [name for step in names(steps_of(before, after, stays=stays)) for name in step]
    assert sorted(done) == sorted(after.keys() - set(stays))
