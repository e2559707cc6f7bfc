"""Whether and when a crashed engine is started again."""

from __future__ import annotations

import pytest

from llmgw_reconcile.supervisor.restarts import delay_before_restart
from tests.fakes.supervised import BUDGETS


@pytest.mark.parametrize(
    ("restarts", "seconds"),
    [(0, 0), (1, 10), (2, 30), (3, 60), (4, 120), (5, 300), (6, 300), (99, 300)],
)
def test_the_delay_grows_with_every_restart_in_a_row(restarts: int, seconds: float) -> None:
    assert delay_before_restart(restarts, BUDGETS._replace(max_restarts=100)) == seconds


@pytest.mark.parametrize(
    ("changes", "restarts"),
    [
        pytest.param({"max_restarts": 3}, 3, id="as-many-as-allowed"),
        pytest.param({"max_restarts": 3}, 4, id="more-than-allowed-since-it-was-lowered"),
        pytest.param({"max_restarts": 0}, 0, id="none-allowed"),
        pytest.param({"restart_policy": "never"}, 0, id="the-policy-says-never"),
    ],
)
def test_there_is_an_end_to_it(changes: dict[str, object], restarts: int) -> None:
    assert delay_before_restart(restarts, BUDGETS._replace(**changes)) is None  # type: ignore[arg-type]


def test_the_last_allowed_restart_is_made() -> None:
    assert delay_before_restart(2, BUDGETS._replace(max_restarts=3)) == 30
