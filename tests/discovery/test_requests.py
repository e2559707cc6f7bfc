"""How many requests an engine has in hand is read from its own metrics; what it does not tell is not known."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from llmgw_reconcile.discovery.requests import MetricsQuestion, count_requests, requests_in_hand
from llmgw_reconcile.host.http import Answer

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="chat"} 3.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="chat"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="chat"} 0.25
"""
SGLANG = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="chat",tp_rank="0"} 1.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="chat",tp_rank="0"} 0.0
"""
LLAMA = """\
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 4
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 7
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param(VLLM, 5, id="vLLM"),
        pytest.param(SGLANG, 1, id="SGLang"),
        pytest.param(LLAMA, 11, id="llama-server"),
        pytest.param(VLLM + VLLM.replace('engine="0"', 'engine="1"'), 10, id="each copy of the model counts"),
        pytest.param(
            'vllm:num_requests_running{model_name="a } b \\" 9"} 2 1767600000000', 2, id="a label with a brace"
        ),
        pytest.param("vllm:num_requests_running 0", 0, id="idle"),
        pytest.param("vllm:num_requests_running_total 5", None, id="another metric with a longer name"),
        pytest.param("# vllm:num_requests_running 5", None, id="a comment"),
        pytest.param("vllm:num_requests_running NaN", None, id="no number that can be counted"),
        pytest.param("vllm:num_requests_running many", None, id="no number"),
        pytest.param("vllm:num_requests_running{", None, id="cut off"),
        pytest.param('{"detail": "Not Found"}', None, id="no metrics"),
    ],
)
def test_requests_are_counted_in_the_words_of_each_engine(body: str, count: int | None) -> None:
    assert requests_in_hand(Answer(200, body.encode())) == count


@pytest.mark.parametrize(
    "answer", [None, Answer(404, VLLM.encode()), Answer(401), Answer(None, problem="connection refused")], ids=str
)
def test_an_answer_that_is_none_is_not_zero_requests(answer: Answer | None) -> None:
    assert requests_in_hand(answer) is None


@contextmanager
def server(reply: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server of one request; its port, and what it was sent. Without a reply it never answers."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                seen.append(connection.recv(65536))
                if reply:
                    connection.sendall(reply)
                else:
                    connection.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], seen
        thread.join(5)


def test_an_engine_is_asked_on_the_loopback_and_with_its_key() -> None:
    with server(b"HTTP/1.1 200 OK\r\n\r\nllamacpp:requests_processing 4\n") as (port, seen):
        assert count_requests(MetricsQuestion("0.0.0.0", port, "k3y")) == 4
    head = seen[0].decode()
    assert head.startswith("GET /metrics HTTP/1.1\r\n")
    assert "Authorization: Bearer k3y\r\n" in head


def test_an_engine_that_does_not_answer_is_not_waited_for() -> None:
    began = time.monotonic()
    with server(b"") as (port, _):
        assert count_requests(MetricsQuestion("127.0.0.1", port), timeout=0.1) is None
    assert time.monotonic() - began < 3


def test_nobody_listens_is_not_known() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert count_requests(MetricsQuestion("127.0.0.1", free.getsockname()[1])) is None
