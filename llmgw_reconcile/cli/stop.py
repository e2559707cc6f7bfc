"""`llmgw stop`: stop engines now and hold them: nothing starts them again until a restart or the next apply."""

from __future__ import annotations

import click

from llmgw_reconcile.cli.engine_names import engines_named
from llmgw_reconcile.cli.interruption import Interruption
from llmgw_reconcile.cli.options import Duration, host_from, node_options, quiet_option
from llmgw_reconcile.cli.stop_options import stop_options
from llmgw_reconcile.cli.streams import write
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.model.event import Result
from llmgw_reconcile.supervise.drain import Drain
from llmgw_reconcile.supervise.stopping import Stopping
from llmgw_reconcile.workflow.applied import last_settings
from llmgw_reconcile.workflow.journal import Journal, Occasion
from llmgw_reconcile.workflow.locking import Locks
from llmgw_reconcile.workflow.session import operations_on


@click.command("stop")
@click.argument("engines", nargs=-1, metavar="[ENGINE]...")
@click.option("--all", "everything", is_flag=True, help="All engines of this node.")
@click.option("--lock-timeout", type=Duration(), default=0.0, metavar="D", help="Wait so long for another command.")
@stop_options
@node_options
@quiet_option
def command(
    engines: tuple[str, ...],
    everything: bool,  # noqa: FBT001 - click passes flags by name
    lock_timeout: float,
    drain: float,
    reason: str | None,
    state_dir: str | None,
    node: str | None,
    quiet: bool,  # noqa: FBT001
) -> int:
    """Stop engines and prove it. They are held: only `restart` or the next `apply` starts them again."""
    if bool(engines) == everything:
        raise click.UsageError("name the engines to stop, or say --all")
    interruption = Interruption()
    host = host_from(state_dir, node)
    names = engines_named(engines, host.state_dir)
    if not names:
        write("no engines on this node\n")
        return 0
    with Locks(host.state_dir, "llmgw stop", lock_timeout) as locks:
        locks.take_node()
        locks.take_engines(names)
        locks.release_node()
        operations = operations_on(host, last_settings(host).held_above_mb)
        interruption.meanwhile = "what was asked to stop goes on stopping, and is held; everything else serves on"
        journal = Journal(host, Occasion("llmgw stop", reason=reason), lambda line: write(f"{line}\n", err=True))
        how = Drain(drain, lambda: False)
        stops = {name: Stopping(operations, name, for_good=True, drain=how, hold=True) for name in names}
        return 0 if _see_to_their_end(stops, journal, host.clock, quiet=quiet) else 1


def _see_to_their_end(stops: dict[str, Stopping], journal: Journal, clock: Clock, *, quiet: bool) -> bool:
    """Whether all of them are proven stopped."""
    began = clock.monotonic()
    left = dict(stops)
    proven = True
    try:
        for name, stopping in stops.items():
            try:
                outcome = stopping.prove()
            except NodeError as error:
                proven = False
                write(f"{name}: not stopped: {error}\n", err=True)
                journal.note(name, "stop", Result.FAILED, str(error), clock.monotonic() - began)
            else:
                write("" if quiet else f"{name}: {outcome}\n")
                journal.note(name, "stop", Result.DONE, f"{outcome}, held", clock.monotonic() - began)
            del left[name]
    finally:  # an interruption
        for name, stopping in left.items():
            if stopping.was_asked:
                journal.note(name, "stop", Result.DONE, "asked to stop, and not waited for: interrupted")
    return proven
