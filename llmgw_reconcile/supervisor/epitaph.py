"""Write down how a run ended while its log is still there: exit, cause, and the newest lines with secrets masked."""

from __future__ import annotations

from typing import Any, NamedTuple

from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.supervisor.orders import Orders
from llmgw_reconcile.supervisor.spawn import Exit

TAIL_BYTES = 96 << 10  # vLLM's root cause stands up to 30 kB above the end


class End(NamedTuple):
    """How a run ended, or why there was none."""

    exit: Exit = Exit()
    reason: str = ""  # our own, when it was we who ended it or could not start it
    tail: bytes = b""  # of its log
    was_ready: bool = False  # whether this run ever was


def epitaph(orders: Orders, end: End) -> dict[str, Any]:
    """The entry of the exit history, with the cause in words: our own reason, else what the log tells."""
    entry = {
        "launch": orders.launch,
        "code": end.exit.code,
        "signal": end.exit.signal,
        "at": utc_now(),
        "cause": "",
        "meaning": "",
        "hint": "",
        "was_ready": end.was_ready,
        "tail": "",
    }
    try:
        # Only an end needs them: a supervisor at rest does without.
        from llmgw_reconcile.engines.cause import find_cause
        from llmgw_reconcile.model.safe_text import mask
    except ImportError as error:  # llmgw was removed or exchanged beneath us; the log is shown to nobody unmasked
        return entry | {"cause": end.reason or f"unknown: llmgw cannot read the log any more ({error})"}
    text = mask(end.tail.decode("utf-8", "replace"), orders.secrets)
    cause = find_cause(text, exit_signal=end.exit.signal)
    return entry | {
        "cause": mask(end.reason, orders.secrets) or cause.line,
        "meaning": "" if end.reason else cause.meaning,
        "hint": cause.hint,
        "tail": text,
    }
