"""Time as an input."""

from __future__ import annotations

import re

from llmgw_reconcile.host.clock import SystemClock, utc_now


def test_a_sleep_lets_at_least_that_much_time_pass() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    clock.sleep(0.01)
    assert clock.monotonic() - before >= 0.01


def test_wall_time_is_rfc_3339_in_utc() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", utc_now())
