"""Which starts and replacements the loop does not make."""

from __future__ import annotations

import pytest

from llmgw_reconcile.agent.restraint import Attempt, left_alone, spec_digest
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.plan.actions import Action, ActionKind
from tests.plan.builders import running, spec, wanted

WANT = wanted()
PROGRAM = "vllm as it is"
SAME, OTHER = spec_digest(WANT), spec_digest(wanted(spec(max_model_len=4096)))
START = Action(ActionKind.START, "chat@0", "")
REPLACE = Action(ActionKind.REPLACE, "chat@0", "")


def ended(phase, of=None):
    return running(of, phase=phase, live=None, supervisor=None)


FAILED, FAILED_OTHERWISE = ended(Phase.FAILED), ended(Phase.FAILED, spec(max_model_len=4096))


@pytest.mark.parametrize(
    ("action", "seen", "attempt", "why"),
    [
        pytest.param(START, None, None, "", id="what-never-ran-is-started"),
        pytest.param(START, ended(Phase.STOPPED), None, "", id="what-ended-unwatched-is-started"),
        pytest.param(
            START, ended(Phase.STOPPED), Attempt(SAME, PROGRAM, False), "", id="what-served-and-ended-is-started"
        ),
        pytest.param(START, ended(Phase.HELD), None, "held: it was stopped by hand", id="what-is-held-waits"),
        pytest.param(
            START, ended(Phase.HELD, spec(dtype="auto")), None, "held: it was stopped by hand", id="whatever-changed"
        ),
        pytest.param(
            START, FAILED, Attempt(SAME, PROGRAM, False), "it failed and is not tried again as it stands", id="failed"
        ),
        pytest.param(START, FAILED, None, "it failed and is not tried again as it stands", id="failed-under-an-apply"),
        pytest.param(
            START,
            FAILED,
            Attempt(OTHER, PROGRAM, False),
            "it failed and is not tried again as it stands",
            id="failed-under-an-apply-since",
        ),
        pytest.param(START, FAILED, Attempt(SAME, "vllm before", False), "", id="failed-with-another-program"),
        pytest.param(START, FAILED_OTHERWISE, None, "", id="another-entry-failed"),
        pytest.param(START, FAILED_OTHERWISE, Attempt(OTHER, PROGRAM, False), "", id="another-entry-failed-here"),
        pytest.param(
            START,
            FAILED_OTHERWISE,
            Attempt(SAME, PROGRAM, True),
            "it failed and is not tried again as it stands",
            id="neither-this-nor-its-predecessor-got-ready",
        ),
        pytest.param(REPLACE, running(), None, "", id="a-change-is-made"),
        pytest.param(
            REPLACE,
            running(),
            Attempt(SAME, PROGRAM, True),
            "its replacement failed and is not tried again as it stands",
            id="a-change-that-was-rolled-back",
        ),
        pytest.param(REPLACE, running(), Attempt(SAME, "vllm before", True), "", id="rolled-back-with-another-program"),
        pytest.param(REPLACE, running(), Attempt(OTHER, PROGRAM, True), "", id="another-change-was-rolled-back"),
        pytest.param(Action(ActionKind.STOP, "chat@0", ""), running(), None, "", id="a-stop-is-made"),
        pytest.param(Action(ActionKind.ADOPT, "chat@0", ""), running(), None, "", id="an-adoption-is-made"),
    ],
)
def test_an_action_is_made_or_left(action, seen, attempt, why):
    left = left_alone(action, WANT, seen, attempt, PROGRAM)
    assert (left.why if left else "") == why


@pytest.mark.parametrize(
    "changed",
    [
        wanted(spec(max_model_len=4096)),
        wanted(spec(stop_grace=5.0)),
        wanted(secret_digests={"api_key": "blake2b:1"}),
    ],
    ids=["spec", "bookkeeping", "secret"],
)
def test_any_change_of_an_entry_is_another_spec(changed):
    assert spec_digest(changed) != SAME


def test_a_rotated_secret_is_a_reason_to_try_again():
    seen = FAILED._replace(secret_digests={"api_key": "blake2b:1"})
    assert left_alone(START, wanted(secret_digests={"api_key": "blake2b:2"}), seen, None, PROGRAM) is None
    assert left_alone(START, wanted(secret_digests={"api_key": "blake2b:1"}), seen, None, PROGRAM) is not None


def test_the_hint_names_what_starts_it():
    left = left_alone(START, WANT, FAILED, None, PROGRAM)
    assert left is not None
    assert left.hint == "change its entry or its program, or say `llmgw restart chat@0`"
