import pytest

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.observed import ObservedState, ProcessId
from llmgw_reconcile.plan.actions import Action, ActionKind, Plan
from llmgw_reconcile.plan.guards import guard_refusals
from tests.plan.builders import ended, running, spec

FREE = {
    "state_names_node": None,
    "node_names": ("gpu-07.example.com",),
    "state_is_empty": False,
    "max_stops": None,
    "allow_empty": False,
    "reviewed": False,
}


def plan_of(**kinds):
    """A plan with one action for each engine: `a=ActionKind.STOP`."""
    return Plan("gpu-07", "node.yaml", tuple(Action(kind, f"{name}@0", "") for name, kind in kinds.items()))


def engines(*names, **changed):
    return ObservedState(engines=tuple(running(spec(name), **changed) for name in names))


def refusals(plan, observed, **given):
    return [(d.code, d.where, d.message, d.hint) for d in guard_refusals(plan, observed, **FREE | given)]


STOP, KEEP, REPLACE = ActionKind.STOP, ActionKind.KEEP, ActionKind.REPLACE


@pytest.mark.parametrize(
    ("plan", "given", "codes"),
    [
        pytest.param(plan_of(a=KEEP, b=KEEP, c=KEEP), {}, [], id="keeping-is-free"),
        pytest.param(plan_of(a=STOP, b=KEEP, c=KEEP), {}, [], id="one-of-three-may-stop"),
        pytest.param(plan_of(a=STOP, b=STOP, c=KEEP), {}, ["too-many-stops"], id="two-of-three-may-not"),
        pytest.param(plan_of(a=STOP, b=STOP, c=KEEP), {"max_stops": 2}, [], id="unless-max-stops-covers-it"),
        pytest.param(
            plan_of(a=STOP, b=STOP, c=KEEP), {"max_stops": 1}, ["too-many-stops"], id="one-does-not-cover-two"
        ),
        pytest.param(plan_of(a=STOP, b=STOP, c=KEEP), {"reviewed": True}, [], id="unless-a-person-reviewed-the-plan"),
        pytest.param(plan_of(a=REPLACE, b=REPLACE, c=REPLACE), {}, [], id="replacements-are-no-stops"),
        pytest.param(
            plan_of(a=STOP, b=STOP, c=STOP),
            {"state_is_empty": True},
            ["empty-state", "too-many-stops"],
            id="an-empty-file-is-refused-twice",
        ),
        pytest.param(
            plan_of(a=STOP, b=STOP, c=STOP),
            {"state_is_empty": True, "max_stops": 3},
            ["empty-state"],
            id="max-stops-does-not-allow-an-empty-file",
        ),
        pytest.param(
            plan_of(a=STOP, b=STOP, c=STOP),
            {"state_is_empty": True, "allow_empty": True, "max_stops": 3},
            [],
            id="both-together-do",
        ),
    ],
)
def test_guards_over_three_running_engines(plan, given, codes):
    assert [code for code, *_ in refusals(plan, engines("a", "b", "c"), **given)] == codes


def test_half_of_the_engines_may_stop():
    assert refusals(plan_of(a=STOP, b=KEEP), engines("a", "b")) == []


def test_a_single_engine_may_stop():
    assert refusals(plan_of(a=STOP), engines("a")) == []


def test_left_over_processes_are_no_running_engines():
    observed = ObservedState(
        engines=(
            *engines("a").engines,
            ended(spec("b"), leftovers=(ProcessId(7, 1),)),
            ended(spec("c"), leftovers=(ProcessId(8, 1),)),
        )
    )
    assert refusals(plan_of(a=KEEP, b=STOP, c=STOP), observed) == []


def test_an_empty_file_where_nothing_runs_is_free():
    assert refusals(plan_of(), ObservedState(engines=(ended(spec("a")),)), state_is_empty=True) == []


def test_each_refusal_names_the_engines_and_the_flag_to_go_on():
    found = refusals(plan_of(a=STOP, b=STOP), engines("a", "b"), state_is_empty=True)
    assert found == [
        (
            "empty-state",
            "node.yaml",
            "the state file has no models, while 2 engines run here: a@0, b@0",
            "if all of them shall stop, add --allow-empty",
        ),
        (
            "too-many-stops",
            "gpu-07",
            "2 of 2 running engines would stop for good: a@0, b@0",
            "if that is meant, add --max-stops 2",
        ),
    ]


@pytest.mark.parametrize(
    ("kind", "surge", "verb"),
    [
        pytest.param(STOP, False, "stop", id="it-is-not-stopped"),
        pytest.param(REPLACE, False, "replace", id="nor-replaced-by-stopping-first"),
        pytest.param(REPLACE, True, None, id="but-replaced-by-starting-first"),
        pytest.param(ActionKind.UPDATE, False, None, id="and-updated"),
        pytest.param(KEEP, False, None, id="and-kept"),
    ],
)
def test_an_engine_recorded_as_protected(kind, surge, verb):
    plan = Plan("gpu-07", "node.yaml", (Action(kind, "a@0", "", surge=surge),))
    expected = (
        "protected",
        "a@0",
        f"it is recorded with `protect: true`, and this plan would {verb} it",
        "apply `protect: false` for it first, with nothing else of it changed",
    )
    observed = ObservedState(engines=(running(spec("a", protect=True)),))
    assert refusals(plan, observed, max_stops=9, reviewed=True) == ([expected] if verb else [])


@pytest.mark.parametrize(
    ("wanted", "names", "refused"),
    [
        pytest.param(None, ("gpu-07",), False, id="a-file-without-a-name-fits-every-node"),
        pytest.param("gpu-07", ("gpu-07",), False, id="the-same-name"),
        pytest.param("gpu-07", ("gpu-07.example.com",), False, id="the-short-name-of-a-full-one"),
        pytest.param("gpu-07.example.com", ("gpu-07.example.com",), False, id="the-full-name"),
        pytest.param("GPU-07", ("gpu-07",), False, id="host-names-know-no-case"),
        pytest.param("gpu-07.a.com", ("gpu-07.b.com",), True, id="another-domain"),
        pytest.param("gpu-0", ("gpu-07",), True, id="a-beginning-is-not-enough"),
        pytest.param("gpu-08", ("host", "gpu-08"), False, id="any-name-of-the-node-will-do"),
    ],
)
def test_the_node_that_the_file_names(wanted, names, refused):
    found = refusals(plan_of(), ObservedState(), state_names_node=wanted, node_names=names)
    assert [code for code, *_ in found] == (["other-node"] if refused else [])


def test_another_node_says_how_to_go_on():
    found = refusals(plan_of(), ObservedState(), state_names_node="gpu-08")
    assert found == [
        (
            "other-node",
            "gpu-08",
            "the state file is for node gpu-08, and this is gpu-07.example.com",
            "apply it on gpu-08, or say that this is it: --node gpu-08",
        )
    ]


def test_refusals_are_errors():
    found = guard_refusals(plan_of(a=STOP, b=STOP), engines("a", "b"), **FREE)
    assert [d.severity for d in found] == [Severity.ERROR]
