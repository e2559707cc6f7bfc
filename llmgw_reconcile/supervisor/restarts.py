"""Decide whether a crashed engine is started again by itself, and when."""

from __future__ import annotations

from llmgw_reconcile.supervisor.orders import Budgets

DELAYS = (0.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds before the first restart in a row, the second, …


def delay_before_restart(restarts: int, budgets: Budgets) -> float | None:
    """Seconds until the next start after so many in a row; None when there is to be none."""
    if budgets.restart_policy != "always" or restarts >= budgets.max_restarts:
        return None
    return DELAYS[min(restarts, len(DELAYS) - 1)]
