"""Set up what carrying out needs, and take it down again: operations, supervisors' template, locks of the caller."""

from __future__ import annotations

import os
from collections.abc import Callable

from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.supervise.operations import Operations
from llmgw_reconcile.supervise.template import SupervisorTemplate
from llmgw_reconcile.workflow.carry_out import CarryOut, Limits
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.planning import Planned
from llmgw_reconcile.workflow.report import Reporter


def operations_on(host: Host, held_above_mb: int) -> Operations:
    """The operations of this node; close their template at the end."""
    return Operations(host.state_dir, host.environ, SupervisorTemplate(), host.clock, held_above_mb)


def carry_out_actions(
    host: Host,
    planned: Planned,
    reporter: Reporter,
    limits: Limits,
    *,
    is_interrupted: Callable[[], bool],
    on_acted: Callable[[], None],
    held_above_mb: int,
    state_digest: str,
) -> tuple[Outcome, ...]:
    """Carry the plan out on this node; an outcome for each action."""
    operations = operations_on(host, held_above_mb)
    try:
        work = CarryOut(
            operations,
            reporter,
            limits,
            is_interrupted=is_interrupted,
            state_file=os.path.abspath(planned.plan.state),
            state_digest=state_digest,
            on_acted=on_acted,
        )
        wanted = {want.spec.engine: want for want in planned.wanted}
        running = {engine.engine: engine for engine in planned.world.observed.engines}
        return work.run(planned.plan.actions, wanted, running)
    finally:
        operations.template.close()
