"""`llmgw wait`: until all engines are ready, or one of them has failed."""

from __future__ import annotations

import time

import click

from llmgw_reconcile.cli.engine_names import engines_named
from llmgw_reconcile.cli.interruption import Interruption
from llmgw_reconcile.cli.options import Duration, host_from, node_options
from llmgw_reconcile.cli.progress import TextProgress
from llmgw_reconcile.discovery.records import read_records
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.workflow.waiting import Waiting, failure_of

POLL_SECONDS = 0.02
OVER = (Phase.FAILED, Phase.STOPPED, Phase.HELD)


@click.command("wait")
@click.argument("engines", nargs=-1, metavar="[ENGINE]...")
@click.option("--timeout", type=Duration(), metavar="D", help="Wait no longer than this.")
@node_options
def command(engines: tuple[str, ...], timeout: float | None, state_dir: str | None, node: str | None) -> int:
    """Wait until all engines are ready (exit 0) or one has failed (exit 1). Without a name: all of this node."""
    host = host_from(state_dir, node)
    Interruption()
    names = engines_named(engines, host.state_dir)
    progress = TextProgress(lambda line: click.echo(line, err=True), width=None)
    waiting = Waiting(host.state_dir, host.clock)
    for name in names:
        waiting.add(Action(ActionKind.KEEP, name, ""), host.clock.monotonic())
    deadline = None if timeout is None else host.clock.monotonic() + timeout
    while len(waiting):
        for action, sighting in waiting.look():
            progress.waiting(sighting)
            if sighting.phase == Phase.READY:
                waiting.drop(action.engine)
            elif sighting.phase in OVER:
                failure = failure_of(read_records(action.engine, host.state_dir.engine(action.engine)))
                click.echo(
                    f"{action.engine}: {failure.summary}" + (f": {failure.cause}" if failure.cause else ""), err=True
                )
                return 1
        if deadline is not None and host.clock.monotonic() >= deadline:
            late = ", ".join(action.engine for action in waiting.actions)
            click.echo(f"not ready in time: {late}", err=True)
            return 1
        time.sleep(POLL_SECONDS)
    click.echo(f"ready: {', '.join(names)}" if names else "no engines on this node")
    return 0
