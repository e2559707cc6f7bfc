"""`llmgw wait`: until all engines are ready, or one of them has failed."""

from __future__ import annotations

import time

import click

from llmgw_reconcile.cli.engine_names import engines_named
from llmgw_reconcile.cli.interruption import Interruption
from llmgw_reconcile.cli.options import Duration, host_from, node_options, quiet_option
from llmgw_reconcile.cli.progress import TextProgress
from llmgw_reconcile.cli.streams import write
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.waiting import Watch

POLL_SECONDS = 0.02


@click.command("wait")
@click.argument("engines", nargs=-1, metavar="[ENGINE]...")
@click.option("--timeout", type=Duration(), metavar="D", help="Wait no longer than this.")
@node_options
@quiet_option
def command(
    engines: tuple[str, ...],
    timeout: float | None,
    state_dir: str | None,
    node: str | None,
    quiet: bool,  # noqa: FBT001 - click passes flags by name
) -> int:
    """Wait until all engines are ready (exit 0) or one has failed (exit 1). Without a name: all of this node."""
    Interruption()
    host = host_from(state_dir, node)
    names = engines_named(engines, host.state_dir)
    progress = TextProgress(lambda line: None if quiet else write(f"{line}\n", err=True), width=None)
    if problem := _wait_for(names, host, progress, timeout):
        write(f"{problem}\n", err=True)
        return 1
    if not quiet:
        write(f"ready: {', '.join(names)}\n" if names else "no engines on this node\n")
    return 0


def _wait_for(names: tuple[str, ...], host: Host, progress: TextProgress, timeout: float | None) -> str:
    """Why they are not all ready; empty when they are."""
    began = host.clock.monotonic()
    watches = {
        name: Watch(name, host.state_dir.engine(name), clock=host.clock, began=began, environ=host.environ)
        for name in names
    }
    while True:
        for name, watch in list(watches.items()):
            sighting = watch.look()
            progress.waiting(sighting)
            if sighting.phase is Phase.READY:
                del watches[name]
            elif sighting.phase.has_ended:
                failure = watch.failure()
                return ": ".join(filter(None, (name, failure.summary, failure.cause)))
        if not watches:
            return ""
        if timeout is not None and host.clock.monotonic() - began >= timeout:
            return f"not ready in time: {', '.join(watches)}"
        time.sleep(POLL_SECONDS)
