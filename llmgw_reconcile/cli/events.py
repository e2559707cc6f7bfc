"""`llmgw events`: the journal: what was done, when, why and by whom."""

from __future__ import annotations

import json
import sys
import time

import click

from llmgw_reconcile.cli.interruption import Interruption
from llmgw_reconcile.cli.options import color_option, host_from, look_of, node_options, output_option
from llmgw_reconcile.host.journal import JournalReader
from llmgw_reconcile.model.event import Event, event_of
from llmgw_reconcile.render.events import event_text

POLL_SECONDS = 0.2


@click.command("events")
@click.option("-n", "--tail", type=click.IntRange(0), metavar="N", help="Only the last N.")
@click.option("-f", "--follow", is_flag=True, help="Go on as more is done.")
@click.option("--engine", metavar="NAME", help="Only of this model or engine, also of one that is gone.")
@output_option("text", "json")
@node_options
@color_option
def command(
    tail: int | None,
    follow: bool,  # noqa: FBT001 - click passes flags by name
    engine: str | None,
    output: str,
    state_dir: str | None,
    node: str | None,
    color: str,
) -> int:
    """Show what was done to the engines of this node, the newest last: a line for each action.

    With -o json each line is a document. The journal keeps the newest 4 to 8 MiB.

    \b
    Examples:
      llmgw events -n 20
      llmgw events --engine llama-70b
      llmgw events -f -o json
    """
    host = host_from(state_dir, node)
    host.state_dir.check()
    look = look_of(sys.stdout, color)
    reader = JournalReader(host.state_dir.journal)

    def news() -> list[Event]:
        events = [event for line in reader.more() if (event := event_of(line)) is not None]
        return [event for event in events if engine is None or event.is_about(engine)]

    def line(event: Event) -> str:
        return json.dumps(event.as_json) + "\n" if output == "json" else event_text(event, color=look.color)

    def show(events: list[Event]) -> None:
        sys.stdout.writelines(map(line, events))
        sys.stdout.flush()

    events = news()
    show(events if tail is None else events[len(events) - min(tail, len(events)) :])
    if follow:
        Interruption()
        while True:
            time.sleep(POLL_SECONDS)
            show(news())
    return 0
