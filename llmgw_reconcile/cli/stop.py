"""`llmgw stop`: stop engines now and hold them: nothing starts them again until a restart or the next apply."""

from __future__ import annotations

import click

from llmgw_reconcile.cli.engine_names import engines_named
from llmgw_reconcile.cli.locking import Locks
from llmgw_reconcile.cli.options import Duration, host_from, node_options
from llmgw_reconcile.errors import LlmgwError
from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB
from llmgw_reconcile.supervise.operations import Operations
from llmgw_reconcile.workflow.session import operations_on


@click.command("stop")
@click.argument("engines", nargs=-1, metavar="[ENGINE]...")
@click.option("--all", "everything", is_flag=True, help="All engines of this node.")
@click.option("--lock-timeout", type=Duration(), default=0.0, metavar="D", help="Wait so long for another command.")
@node_options
def command(
    engines: tuple[str, ...],
    everything: bool,  # noqa: FBT001 - click passes flags by name
    lock_timeout: float,
    state_dir: str | None,
    node: str | None,
) -> int:
    """Stop engines and prove it. They are held: only `restart` or the next `apply` starts them again."""
    if bool(engines) == everything:
        raise click.UsageError("name the engines to stop, or say --all")
    host = host_from(state_dir, node)
    names = engines_named(engines, host.state_dir)
    if not names:
        click.echo("no engines on this node")
        return 0
    with Locks(host.state_dir, "llmgw stop", lock_timeout) as locks:
        locks.take_node()
        locks.take_engines(names)
        locks.release_node()
        operations = operations_on(host, DEFAULT_HELD_ABOVE_MB)
        for name in names:
            operations.ask_to_stop(name)
        results = [_stop(operations, name) for name in names]
        operations.template.close()
    return 0 if all(results) else 1


def _stop(operations: Operations, name: str) -> bool:
    try:
        result = operations.stop(name)
        if result.is_stopped:
            operations.hold(name)
    except LlmgwError as error:
        click.echo(f"{name}: not stopped: {error}", err=True)
        return False
    pids = ", ".join(str(process.pid) for process in result.survivors)
    click.echo(f"{name}: {result.outcome}" + (f": {pids}; their GPUs stay taken" if pids else ""))
    return result.is_stopped
