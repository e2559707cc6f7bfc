"""Set up what carrying out needs, and take it down again: operations, supervisors' template, who waits and how long."""

from __future__ import annotations

from collections.abc import Callable

from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.supervise.operations import Operations
from llmgw_reconcile.supervise.template import SupervisorTemplate
from llmgw_reconcile.workflow.carry_out import CarryOut, Limits
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.journal import Journal, JournalingReporter
from llmgw_reconcile.workflow.ledger import Ledger
from llmgw_reconcile.workflow.planning import Planned
from llmgw_reconcile.workflow.report import Reporter
from llmgw_reconcile.workflow.site import Enough, Site


def operations_on(host: Host, held_above_mb: int) -> Operations:
    """The operations of this node; close their template at the end."""
    return Operations(host.state_dir, host.environ, SupervisorTemplate(), host.clock, held_above_mb)


def carry_out_actions(
    host: Host,
    planned: Planned,
    reporter: Reporter,
    limits: Limits,
    journal: Journal,
    *,
    is_interrupted: Callable[[], bool],
    on_acted: Callable[[], None],
    held_above_mb: int,
    whole: bool = False,
) -> tuple[Outcome, ...]:
    """Carry the plan out on this node; an outcome for each action.

    `whole`: the plan is that of a whole state, so that records of engines which have ended and are not wanted go.
    """
    operations = operations_on(host, held_above_mb)
    try:
        site = Site(
            operations,
            Ledger(JournalingReporter(reporter, journal), host.clock),
            wanted={want.spec.engine: want for want in planned.wanted},
            running={engine.engine: engine for engine in planned.world.observed.engines},
            enough=_patience(host, is_interrupted, limits.timeout),
            drain=limits.drain,
        )
        if whole:
            _forget_unwanted(site)
        outcomes = CarryOut(site, planned.plan.actions, limits, on_acted).run()
    finally:
        operations.template.close()
    journal.note_not_tried(outcomes)
    return outcomes


def _forget_unwanted(site: Site) -> None:
    """What a stop for good would have removed, had it not been interrupted, or had the engine not failed before."""
    for name, seen in site.running.items():
        if name not in site.wanted and not (seen.live or seen.supervisor or seen.leftovers):
            site.operations.forget(name)


def _patience(host: Host, is_interrupted: Callable[[], bool], timeout: float | None) -> Callable[[], Enough | None]:
    deadline = None if timeout is None else host.clock.monotonic() + timeout

    def enough() -> Enough | None:
        if is_interrupted():
            return Enough("interrupted", ok=True)
        if deadline is not None and host.clock.monotonic() >= deadline:
            return Enough(f"the time-out of {timeout:g} s is over", ok=False)
        return None

    return enough
