"""Ask an engine for its metrics, and tell how many requests it has in hand."""

from __future__ import annotations

import math
import re
import select
import time
from typing import NamedTuple

from llmgw_reconcile.discovery.readiness import WILDCARDS
from llmgw_reconcile.host.http import Answer, Exchange

TIMEOUT = 1.0  # seconds; an engine that does not count its requests in that time serves nobody

# Running and waiting requests, as vLLM 0.33, SGLang 0.5.23 (with --enable-metrics) and llama-server of build 10434
# (with --metrics) call them.
IN_HAND = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "llamacpp:requests_processing",
    "llamacpp:requests_deferred",
)
# A sample of the text format: name, labels, value, and perhaps a time. A quoted label may hold a brace.
_SAMPLE = re.compile(
    rf"^(?:{'|'.join(map(re.escape, IN_HAND))})" r"(?:\{(?:[^}\"]|\"(?:[^\"\\]|\\.)*\")*\})?[ \t]+(\S+)", re.MULTILINE
)


class MetricsQuestion(NamedTuple):
    """Where to ask an engine, and its key: llama-server guards its metrics too."""

    host: str
    port: int
    bearer: str | None = None


def count_requests(question: MetricsQuestion, *, timeout: float = TIMEOUT) -> int | None:
    """Requests in hand, running or waiting; None where the engine does not tell, or not within the time-out."""
    host, port, bearer = question
    exchange = Exchange(WILDCARDS.get(host, host), port, "/metrics", timeout=timeout, bearer=bearer)
    while not exchange.advance():
        poller = select.poll()
        poller.register(exchange.fileno(), exchange.events)
        poller.poll(max(0.0, exchange.deadline - time.monotonic()) * 1000 + 1)
    return requests_in_hand(exchange.answer)


def requests_in_hand(answer: Answer | None) -> int | None:
    """The sum over all samples: each copy of the model has its own. None when there is none, or one is no number.

    >>> requests_in_hand(Answer(200, b'vllm:num_requests_running{engine="0"} 3.0'))
    3
    """
    if answer is None or not answer.is_success:
        return None
    values = _SAMPLE.findall(answer.body.decode("utf-8", "replace"))
    try:
        total = sum(float(value) for value in values)
    except ValueError:
        return None
    return math.ceil(total) if values and math.isfinite(total) else None
