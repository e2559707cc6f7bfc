"""The order in which a plan is carried out, and what becomes of it when something does not go as planned."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.workflow.carry_out import CarryOut, Limits
from tests.fakes.site import NEW, OLD, Course, FakeSite, summaries
from tests.plan.builders import gpu, running, spec, wanted

Place = tuple[tuple[int, ...], int]  # cards and port
FAILS, BROKEN = Course(Phase.FAILED, 0.5), Course(None)


class Scene:
    """What runs before, and what is wanted, by the engine's name."""

    def __init__(self, before: dict[str, Place], after: dict[str, Place], **how: Any) -> None:
        want = {}
        for name, (cards, port) in after.items():
            want[f"{name}@0"] = wanted(spec(name, port=port, max_model_len=2048), *map(gpu, cards))
        seen = {f"{name}@0": running(spec(name, port=port), *map(gpu, cards)) for name, (cards, port) in before.items()}
        self.site = FakeSite(want, seen, **how)
        stops = [self._action(ActionKind.STOP, name, before[name]) for name in before if name not in after]
        kinds = {name: ActionKind.REPLACE if name in before else ActionKind.START for name in after}
        self.actions = (*stops, *(self._action(kinds[name], name, after[name]) for name in after))
        self.outcomes: dict[str, str] = {}

    @staticmethod
    def _action(kind: ActionKind, name: str, place: Place) -> Action:
        return Action(kind, f"{name}@0", "", gpus=tuple(f"GPU-{card}" for card in place[0]), port=place[1])

    def play(self, **limits: Any) -> list[str]:
        """Carry it out; what was done to the engines, in order."""
        outcomes = CarryOut(self.site, self.actions, Limits(**limits), self._acted).run()  # type: ignore[arg-type]
        assert [outcome.engine for outcome in outcomes] == [action.engine for action in self.actions]
        self.outcomes = summaries(outcomes)
        return [step.removesuffix("@0") for step in self.site.operations.done]

    def _acted(self) -> None:
        self.site.operations.done.append("acted")

    @property
    def live(self) -> dict[str, str]:
        """Who runs in the end, and as what."""
        operations = self.site.operations
        return {name.removesuffix("@0"): operations.version(intent) for name, intent in operations.live.items()}


A, B, C = ((0,), 8000), ((1,), 8001), ((2,), 8002)


def test_starts_go_side_by_side_and_replacements_one_by_one() -> None:
    scene = Scene({"a": A, "b": B}, {"a": A, "b": B, "c": C, "d": ((3,), 8003)})
    assert scene.play() == [
        "stop a",
        "start new c",
        "start new d",
        "start new a",
        "stop b",
        "start new b",
        "acted",
    ]
    assert scene.outcomes == dict.fromkeys("abcd", "ready")


def test_no_more_start_at_once_than_allowed() -> None:
    scene = Scene({}, {"a": A, "b": B, "c": C})
    scene.play(parallel=1)
    assert scene.site.reporter.told == [f"{word} {name}@0" for name in "abc" for word in ("begin", "ok")]


def test_a_start_waits_for_the_stop_that_frees_its_place_and_for_no_other() -> None:
    scene = Scene({"old": A, "slow": B}, {"new": A, "free": C}, stops={"slow@0": 30.0, "old@0": 2.0})
    scene.play()
    assert scene.site.operations.done[:2] == ["stop old@0", "stop slow@0"]
    ends = [told for told in scene.site.reporter.told if told.startswith("ok")]
    assert ends == ["ok free@0", "ok old@0", "ok new@0", "ok slow@0"]


def test_nothing_is_started_in_the_place_of_an_engine_that_does_not_stop() -> None:
    scene = Scene({"old": A}, {"new": A, "free": C}, stops={"old@0": None})
    assert "start new new" not in scene.play()
    assert scene.outcomes == {
        "old": "unkillable",
        "new": "old@0, whose place it takes, did not stop",
        "free": "ready",
    }


def test_the_node_is_let_go_once_everything_was_started() -> None:
    scene = Scene(
        {"a": A, "gone": C}, {"a": A, "b": B}, stops={"gone@0": 5.0}, courses={("a@0", NEW): Course(seconds=9)}
    )
    done = scene.play()
    assert done.index("acted") > max(done.index("forget gone"), done.index("start new a"), done.index("start new b"))
    assert scene.site.ledger.outcome("a@0").seconds > 9  # type: ignore[union-attr]


def test_a_replacement_in_vain_comes_back_and_ends_the_rest() -> None:
    scene = Scene({"a": A, "b": B}, {"a": A, "b": B, "c": C}, courses={("a@0", NEW): FAILS})
    done = scene.play()
    assert [step for step in done if step.endswith("a")] == ["stop a", "start new a", "stop a", "start old a"]
    assert scene.outcomes == {
        "a": "exit code 1; rolled back to its previous launch, which is ready",
        "b": "a@0 did not get ready",
        "c": "ready",
    }
    assert scene.live == {"a": OLD, "b": OLD, "c": NEW}


def test_a_previous_launch_comes_back_once_and_no_more() -> None:
    scene = Scene({"a": A}, {"a": A}, courses={("a@0", NEW): FAILS, ("a@0", OLD): FAILS})
    assert scene.play().count("start old a") == 1
    assert scene.outcomes == {"a": "exit code 1; its previous launch does not get ready either: exit code 1"}


def test_a_launch_that_cannot_even_be_started_is_rolled_back_too() -> None:
    scene = Scene({"a": A}, {"a": A}, courses={("a@0", NEW): BROKEN})
    scene.play()
    assert scene.outcomes == {
        "a": "it cannot be started; rolled back to its previous launch, which is ready",
    }


def test_a_start_in_vain_brings_nobody_back_and_halts_nobody() -> None:
    scene = Scene({"a": A}, {"a": A, "c": C}, courses={("c@0", NEW): FAILS})
    scene.play()
    assert scene.outcomes == {"a": "ready", "c": "exit code 1"}


def test_a_swap_stops_both_before_it_starts_either() -> None:
    scene = Scene({"a": A, "b": B}, {"a": B, "b": A})
    assert scene.play() == ["stop a", "stop b", "start new a", "start new b", "acted"]


def test_a_swap_in_vain_brings_both_back_to_their_places() -> None:
    scene = Scene({"a": A, "b": B}, {"a": B, "b": A}, courses={("a@0", NEW): FAILS, ("b@0", NEW): Course(seconds=9)})
    scene.play()
    assert scene.live == {"a": OLD, "b": OLD}
    assert scene.outcomes["b"] == (
        "gives its place back: a@0 did not get ready; rolled back to its previous launch, which is ready"
    )


def test_who_is_in_nobodys_way_keeps_its_new_run() -> None:
    chain = Scene({"a": A, "b": B}, {"a": B, "b": C}, courses={("a@0", NEW): FAILS})
    chain.play()
    assert chain.live == {"a": OLD, "b": NEW}
    assert chain.outcomes["b"] == "ready"


def test_where_one_of_a_swap_does_not_stop_the_other_comes_back() -> None:
    scene = Scene({"a": A, "b": B}, {"a": B, "b": A}, stops={"b@0": None})
    scene.play()
    assert scene.live == {"a": OLD, "b": OLD}
    assert scene.outcomes == {
        "a": "not replaced: b@0 did not stop; rolled back to its previous launch, which is ready",
        "b": "unkillable",
    }


def test_an_interruption_while_the_old_one_stops_still_starts_the_new_one_and_nothing_else() -> None:
    scene = Scene({"a": A, "b": B}, {"a": A, "b": B}, stops={"a@0": 5.0}, enough_at=2.0)
    assert scene.play() == ["stop a", "start new a"]
    assert scene.outcomes == {"a": "not ready yet: interrupted; its supervisor goes on", "b": "interrupted"}


def test_an_interruption_before_anything_begins_leaves_everything_as_it_is() -> None:
    scene = Scene({"a": A, "gone": B}, {"a": A, "c": C}, enough_at=0.0)
    assert scene.play() == []
    assert set(scene.outcomes.values()) == {"interrupted"}


def test_without_waiting_all_but_the_last_replacement_are_waited_for() -> None:
    scene = Scene({"a": A, "b": B}, {"a": A, "b": B, "c": C})
    scene.play(wait=False)
    late = "not ready yet: not waited for; its supervisor goes on"
    assert scene.outcomes == {"a": "ready", "b": late, "c": late}


def test_blocked_engines_and_kept_ones_are_accounted_for() -> None:
    scene = Scene({"a": A}, {"a": A})
    reason = Diagnostic(Severity.ERROR, "no-gpus", "b@0", "this node has none")
    scene.actions = (
        Action(ActionKind.KEEP, "a@0", ""),
        Action(ActionKind.BLOCKED, "b@0", "it cannot be started here", diagnostics=(reason,)),
    )
    assert scene.play() == ["acted"]
    assert scene.outcomes == {"a": "ready", "b": "this node has none"}


# -- whatever happens

NAMES = "abcd"


@st.composite
def places(draw: st.DrawFn) -> dict[str, Place]:
    cards, ports = draw(st.permutations(range(6))), draw(st.permutations(range(8000, 8006)))
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    return {name: ((cards[index],), ports[index]) for index, name in enumerate(names)}


courses = st.sampled_from([Course(), Course(seconds=3.0), FAILS, BROKEN])
runs = st.dictionaries(st.tuples(st.sampled_from([f"{name}@0" for name in NAMES]), st.just(NEW)), courses)
durations = st.dictionaries(st.sampled_from([f"{name}@0" for name in NAMES]), st.sampled_from([0.0, 0.5, 4.0, None]))


@settings(max_examples=300, deadline=None)
@given(places(), places(), runs, durations, st.sampled_from([None, 0.0, 0.3, 0.8, 2.0, 5.0]), st.integers(1, 3))
def test_nobody_is_doubled_or_lost_whatever_happens(
    before: dict[str, Place],
    after: dict[str, Place],
    new: dict[tuple[str, str], Course],
    stops: dict[str, float | None],
    enough_at: float | None,
    parallel: int,
) -> None:
    scene = Scene(before, after, courses=new, stops=stops, enough_at=enough_at)
    done = scene.play(parallel=parallel)  # the fake site judges every start
    assert scene.site.clock.now < 120
    for name in before.keys() & after.keys():
        # An engine that ran and is wanted runs in the end: its new launch, or its old one again.
        assert name in scene.live, (name, done, scene.outcomes)
    vain = [step for step in done if step.startswith("start old ")]
    replaced = [step.removeprefix("start new ") for step in done if step.startswith("start new ")]
    if vain:
        first = done.index(vain[0])
        later = {step.removeprefix("stop ") for step in done[first:] if step.startswith("stop ")}
        assert not later - set(replaced) - set(before.keys() - after.keys()), "a replacement began after one in vain"
