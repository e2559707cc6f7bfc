"""What the loop does to this node: applies of the workflow floor, under its locks and guards."""

from __future__ import annotations

from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.workflow.applying import Applied, Supervision, Wish, apply_state, replace_dead
from llmgw_reconcile.workflow.host import Host


class NodeWork:
    """The real work."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def apply(self, wish: Wish, by: Supervision) -> Applied:
        """One apply. Raises BusyError, RefusedError and NodeError; nothing was changed then."""
        return apply_state(self._host, wish, by)

    def replace_dead(self, engine: str, leader: ProcessId, why: str, by: Supervision) -> Applied:
        """Start an engine afresh if it is that process and does not answer. Raises likewise."""
        return replace_dead(self._host, engine, leader, why, by)
