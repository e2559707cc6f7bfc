import pytest

from llmgw_reconcile.plan.actions import Action, ActionKind, Plan
from tests.plan.builders import error, warning


def plan_of(*kinds, diagnostics=()):
    actions = tuple(Action(kind, f"e{number}@0", "") for number, kind in enumerate(kinds))
    return Plan("gpu-07", "node.yaml", actions, diagnostics)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (ActionKind.STOP, True),
        (ActionKind.ADOPT, True),
        (ActionKind.UPDATE, True),
        (ActionKind.START, True),
        (ActionKind.REPLACE, True),
        (ActionKind.KEEP, False),
        (ActionKind.BLOCKED, False),
    ],
)
def test_only_what_an_apply_would_do_is_a_change(kind, changes):
    assert plan_of(kind).has_changes is changes


def test_a_plan_counts_its_actions_by_kind():
    plan = plan_of(ActionKind.START, ActionKind.KEEP, ActionKind.START)
    assert [plan.count(kind) for kind in ActionKind] == [0, 0, 0, 2, 0, 1, 0]


@pytest.mark.parametrize(
    ("plan", "errors"),
    [
        pytest.param(plan_of(ActionKind.BLOCKED), True, id="a-blocked-engine"),
        pytest.param(plan_of(diagnostics=(error("nvidia-smi-failed", "no driver"),)), True, id="an-unreadable-node"),
        pytest.param(plan_of(diagnostics=(warning("memlock", "small"),)), False, id="a-warning-is-no-error"),
        pytest.param(plan_of(ActionKind.START), False, id="a-start-is-no-error"),
    ],
)
def test_a_plan_has_errors_when_an_engine_is_blocked_or_the_node_is_unreadable(plan, errors):
    assert plan.has_errors is errors
