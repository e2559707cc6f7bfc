"""Write down how a run ended while its log is still there: exit, cause, and the newest lines with secrets masked."""

from __future__ import annotations

from typing import Any

from llmgw_reconcile.engines.cause import find_cause
from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.model.safe_text import mask
from llmgw_reconcile.supervisor.orders import Orders
from llmgw_reconcile.supervisor.spawn import Exit

TAIL_BYTES = 96 << 10  # vLLM's root cause stands up to 30 kB above the end


def epitaph(orders: Orders, ended: Exit, reason: str, tail: bytes, *, was_ready: bool) -> dict[str, Any]:
    """The entry of the exit history. `reason` is our own when we ended it or could not start it, else empty."""
    text = mask(tail.decode("utf-8", "replace"), orders.secrets)
    cause = find_cause(text, exit_signal=ended.signal)
    return {
        "launch": orders.launch,
        "code": ended.code,
        "signal": ended.signal,
        "at": utc_now(),
        "cause": mask(reason, orders.secrets) or cause.line,
        "meaning": "" if reason else cause.meaning,
        "hint": cause.hint,
        "was_ready": was_ready,
        "tail": text,
    }
