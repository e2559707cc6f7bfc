"""What a ready engine tells of itself in the answers to its probe."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from llmgw_reconcile.discovery.readiness import (
    Question,
    ReadinessRound,
    Standing,
    Verdict,
    run_rounds,
    served_models,
)

MODELS = {"data": [{"id": "chat", "max_model_len": 4096}]}


@contextmanager
def answering(pages: Mapping[str, object]) -> Iterator[tuple[int, list[str]]]:
    """A server with these pages; its port, and what was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps(pages.get(self.path)).encode()
            self.send_response(200 if self.path in pages else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def verdict(port: int, version_path: str = "") -> Verdict:
    question = Question("127.0.0.1", port, ("chat",), None, "/health", 5.0, version_path)
    (found,) = run_rounds([ReadinessRound(question, lambda: [os.getpid()])])
    return found


def test_a_ready_engine_tells_its_context() -> None:
    with answering({"/health": None, "/v1/models": MODELS}) as (port, asked):
        assert verdict(port) == Verdict(Standing.READY, context=4096)
    assert asked == ["/health", "/v1/models"]


@pytest.mark.parametrize(
    ("page", "version"),
    [({"version": "0.33.0"}, "0.33.0"), ({"version": 33}, None), (["0.33.0"], None), (None, None)],
)
def test_the_version_is_asked_last_where_it_matters(page: object, version: str | None) -> None:
    with answering({"/health": None, "/v1/models": MODELS, "/version": page}) as (port, asked):
        assert verdict(port, "/version") == Verdict(Standing.READY, context=4096, version=version)
    assert asked == ["/health", "/v1/models", "/version"]


def test_an_engine_that_does_not_tell_its_version_is_ready_all_the_same() -> None:
    with answering({"/health": None, "/v1/models": MODELS}) as (port, _):
        assert verdict(port, "/version") == Verdict(Standing.READY, context=4096)


def test_an_engine_that_is_not_ready_is_not_asked_further() -> None:
    with answering({"/health": None, "/v1/models": {"data": [{"id": "other"}]}}) as (port, asked):
        assert verdict(port, "/version") == Verdict(Standing.ANSWERING, "/v1/models names other, not chat")
    assert asked == ["/health", "/v1/models"]


@pytest.mark.parametrize(
    ("body", "models"),
    [
        (b'{"data": [{"id": "a", "max_model_len": 8}, {"id": "b"}]}', {"a": 8, "b": None}),
        (b'{"data": [{"id": "a", "max_model_len": "8"}, {"id": 7}]}', {"a": None}),
        (b'{"data": [{"id": "a", "max_model_len": true}]}', {"a": None}),
        (b'{"data": ["a"]}', {}),
        (b'{"data": []}', {}),
        (b"[]", {}),
        (b"no json", {}),
        (b"[" * 100_000, {}),
    ],
)
def test_a_model_list_names_models_and_their_context(body: bytes, models: dict[str, int | None]) -> None:
    assert served_models(body) == models
