"""Ask the guards of a plan, with what the command line knows: apply refuses on their word, plan passes it on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic, RefusedError, Severity
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.plan.actions import Plan
from llmgw_reconcile.plan.guards import guard_refusals
from llmgw_reconcile.workflow.planning import Planned


class Consent(NamedTuple):
    """What a person said that an apply may do."""

    yes: bool = False
    max_stops: int | None = None
    allow_empty: bool = False
    expect: str | None = None  # the digest of the plan that was approved


class GuardError(RefusedError):
    """Guards speak against the plan."""

    def __init__(self, refusals: Sequence[Diagnostic]) -> None:
        lines = [f"refused, nothing was changed: {one.where}: {one.message}\n  hint: {one.hint}" for one in refusals]
        super().__init__("\n".join(lines))


def refusals_of(
    planned: Planned, state: DesiredState, node_names: Sequence[str], consent: Consent
) -> tuple[Diagnostic, ...]:
    """Why an apply of this plan would be refused; empty when it would not."""
    return guard_refusals(
        planned.plan,
        planned.world.observed,
        state_names_node=state.node.name,
        node_names=node_names,
        state_is_empty=not state.models,
        max_stops=consent.max_stops,
        allow_empty=consent.allow_empty,
        reviewed=consent.expect is not None,
    )


def with_guard_warnings(planned: Planned, state: DesiredState, node_names: Sequence[str]) -> Plan:
    """The plan, saying what an apply of it will need."""
    warnings = tuple(
        one._replace(severity=Severity.WARNING, message=f"an apply will refuse this: {one.message}")
        for one in refusals_of(planned, state, node_names, Consent())
    )
    return planned.plan._replace(diagnostics=(*planned.plan.diagnostics, *warnings))
