"""`llmgw logs`: what an engine wrote, from its end, and on as it writes."""

from __future__ import annotations

import time

import click

from llmgw_reconcile.cli.engine_names import one_engine_named
from llmgw_reconcile.cli.interruption import Interruption
from llmgw_reconcile.cli.options import host_from, node_options
from llmgw_reconcile.cli.streams import write
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.supervise.log import LogReader, secrets_of

POLL_SECONDS = 0.2


@click.command("logs")
@click.argument("engine")
@click.option("-f", "--follow", is_flag=True, help="Go on as it writes, across restarts.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option("--previous", is_flag=True, help="The log of the run before.")
@node_options
def command(
    engine: str,
    follow: bool,  # noqa: FBT001 - click passes flags by name
    tail: int | None,
    previous: bool,  # noqa: FBT001
    state_dir: str | None,
    node: str | None,
) -> int:
    """Show the log of an engine. Escape sequences are made visible, secrets are masked."""
    Interruption("the engine goes on")
    host = host_from(state_dir, node)
    name = one_engine_named(engine, host.state_dir)
    folder = host.state_dir.engine(name)
    path = folder.previous_log if previous else folder.log
    reader = LogReader(path, secrets_of(name, folder, host.environ))
    lines = reader.tail(tail)
    if lines is None:
        raise NodeError(f"cannot show the log of {name}: there is none at {path}")
    _write(lines)
    while follow and not previous:
        lines = reader.more()
        _write(lines)
        if not lines:
            time.sleep(POLL_SECONDS)
    return 0


def _write(lines: list[str]) -> None:
    write("".join(f"{line}\n" for line in lines))
