"""Let an engine finish what it has in hand before it is stopped: nobody is sent to it any more, and it empties.

Requests in hand are what the engine's own metrics tell. One that tells nothing is not waited for: how long it may take
to end what it has is its `stop_grace`, which begins with the stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from llmgw_reconcile.discovery.engines import bearer_of
from llmgw_reconcile.discovery.records import read_records
from llmgw_reconcile.discovery.requests import MetricsQuestion, count_requests
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.host.draining import mark_draining, unmark_draining
from llmgw_reconcile.host.state_dir import StateDir

DEFAULT_DRAIN = 30.0  # seconds
POLL_SECONDS = 0.25  # also what routers have to turn away from an engine that has nothing in hand


class Drain(NamedTuple):
    """How long an engine is waited for, in seconds, and whether that was broken off: then it is not stopped."""

    limit: float
    is_broken_off: Callable[[], bool]


AT_ONCE = Drain(0.0, lambda: False)


def drain_engine(engine: str, how: Drain, state_dir: StateDir, environ: Mapping[str, str], clock: Clock) -> bool:
    """Take it out of the endpoints, then wait until it has nothing in hand, or the limit is over.

    It has nothing in hand when two looks in a row find nothing. False when the wait was broken off: it is routed to
    again.
    """
    folder = state_dir.engine(engine)
    with suppress(NodeError):  # a full disk must not keep an engine from being stopped
        mark_draining(folder)
    question = _question(engine, state_dir, environ)
    deadline = clock.monotonic() + how.limit
    was_idle = False
    while question is not None and clock.monotonic() < deadline:
        count = count_requests(question)
        if count is None or (count == 0 and was_idle):
            break
        was_idle = count == 0
        clock.sleep(min(POLL_SECONDS, max(0.0, deadline - clock.monotonic())))
        if how.is_broken_off():
            unmark_draining(folder)
            return False
    return True


def _question(engine: str, state_dir: StateDir, environ: Mapping[str, str]) -> MetricsQuestion | None:
    """None for an engine that serves nothing on this node, or whose records are lost."""
    launch = read_records(engine, state_dir.engine(engine)).launch
    document = launch["document"] if launch else {}
    if not document.get("port"):
        return None
    return MetricsQuestion(str(document.get("host") or ""), int(document["port"]), bearer_of(document, environ))
