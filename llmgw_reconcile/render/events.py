"""Events of the journal to lines for people."""

from __future__ import annotations

from llmgw_reconcile.model.event import Event, Result
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.render.status import duration_text
from llmgw_reconcile.render.terminal import Style, painter

ENGINE_WIDTH = 18  # columns that engine ids are aligned to; a journal that is followed cannot be measured first
ACTION_WIDTH = len("replace")
DIGEST_SHOWN = 12  # characters of a commit or a digest
_STYLES = {Result.DONE: Style.GOOD, Result.FAILED: Style.BAD, Result.NOT_TRIED: Style.CHANGE}


def event_text(event: Event, *, color: bool = False) -> str:
    """One line: when, what, to which engine, how it ended, and in parentheses who did it, with what, and why."""
    paint = painter(color=color)
    took = "" if event.seconds is None else f", {duration_text(event.seconds)}"
    ended = f": {neutralise(event.detail)}" if event.detail else ""
    head = f"{event.at}  {neutralise(event.action):<{ACTION_WIDTH}}  {neutralise(event.engine):<{ENGINE_WIDTH}}  "
    return f"{head}{paint(str(event.result), _STYLES[event.result])}{ended}{took} ({neutralise(_by(event))})\n"


def _by(event: Event) -> str:
    """`alice as root: llmgw apply /srv/node.yaml, commit 5f0b02c7d1e9, plan 9c0e41aa02bd: new template`."""
    who = f"{event.sudo_user} as {event.user}" if event.sudo_user else event.user
    what = f"{event.command} {event.state}" if event.state else event.command
    parts = [f"{who}: {what}"]
    parts += [f"commit {event.commit[:DIGEST_SHOWN]}"] if event.commit else []
    parts += [f"plan {event.plan.rpartition(':')[2][:DIGEST_SHOWN]}"] if event.plan else []
    return ", ".join(parts) + (f": {event.reason}" if event.reason else "")
