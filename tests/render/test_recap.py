from __future__ import annotations

from textwrap import dedent

import pytest

from llmgw_reconcile.plan.actions import ActionKind
from llmgw_reconcile.render.recap import Outcome, recap_text

FAILED = Outcome(
    "bad@0",
    ActionKind.START,
    ok=False,
    summary="exit code 7",
    seconds=3.25,
    log_tail=("loading weights", "\x1b[31mERROR\x1b[0m engine core died"),
    cause="ValueError: No available memory for the cache blocks",
    hint="lower max_model_len, or give it more GPUs",
)
STARTED = Outcome("good@0", ActionKind.START, ok=True, summary="ready", seconds=12.3)
KEPT = Outcome("kept@0", ActionKind.KEEP, ok=True, summary="unchanged")
BLOCKED = Outcome("gone@0", ActionKind.BLOCKED, ok=False, summary="cannot find the executable")
UNTRIED = Outcome("next@0", ActionKind.REPLACE, ok=False, summary="an earlier replacement failed", tried=False)


def test_a_failure_shows_its_cause_before_its_log_and_before_the_recap():
    assert recap_text([STARTED, FAILED, KEPT, BLOCKED, UNTRIED]) == dedent("""\
        failed: bad@0  start: exit code 7 after 3.2s
          cause: ValueError: No available memory for the cache blocks
          hint: lower max_model_len, or give it more GPUs
          last lines of its log:
          | loading weights
          | ERROR engine core died

        done       good@0 (start: ready, 12s)
        failed     bad@0 (start: exit code 7)
        blocked    gone@0 (cannot find the executable)
        not tried  next@0 (replace: an earlier replacement failed)
        ok=2 changed=1 failed=1 blocked=1 not_tried=1
        """)


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        pytest.param([], "ok=0 changed=0 failed=0 blocked=0", id="nothing"),
        pytest.param([KEPT], "ok=1 changed=0 failed=0 blocked=0", id="kept"),
        pytest.param([STARTED, KEPT], "ok=2 changed=1 failed=0 blocked=0", id="changed-is-ok-too"),
        pytest.param([FAILED], "ok=0 changed=0 failed=1 blocked=0", id="failed"),
        pytest.param([BLOCKED], "ok=0 changed=0 failed=0 blocked=1", id="blocked-is-no-failure"),
        pytest.param([UNTRIED], "ok=0 changed=0 failed=0 blocked=0 not_tried=1", id="not-tried-is-no-failure"),
    ],
)
def test_the_counts_end_the_recap(outcomes, counts):
    assert recap_text(outcomes).splitlines()[-1] == counts


def test_a_failure_without_a_log_is_one_line():
    bare = Outcome("old@0", ActionKind.STOP, ok=False, summary="still there after SIGKILL")
    assert recap_text([bare]).splitlines()[0] == "failed: old@0  stop: still there after SIGKILL"


def test_a_log_line_is_cut_to_the_terminal():
    text = recap_text([FAILED._replace(log_tail=("x" * 500,))], width=40)
    assert f"\n  | {'x' * 33}...\n" in text


def test_colour_adds_nothing_but_colour():
    outcomes = [STARTED, FAILED, BLOCKED, UNTRIED]
    colored = recap_text(outcomes, color=True)
    assert colored.startswith("\x1b[31mfailed: bad@0\x1b[0m  start: exit code 7")
    for code in ("0", "31", "32", "33"):
        colored = colored.replace(f"\x1b[{code}m", "")
    assert colored == recap_text(outcomes)
