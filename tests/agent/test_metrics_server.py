"""One page for Prometheus: it is there, it is fresh, and nobody can hold it up for long."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse

import pytest

from llmgw_reconcile.agent import metrics_server
from llmgw_reconcile.agent.metrics_server import MetricsServer
from llmgw_reconcile.errors import NodeError


@contextmanager
def serving(write: Callable[[], str]) -> Iterator[MetricsServer]:
    server = MetricsServer("127.0.0.1", 0, write)
    try:
        yield server
    finally:
        server.close()


def get(server: MetricsServer, path: str = "/metrics", method: str = "GET") -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply, reply.read().decode()
    finally:
        connection.close()


def test_each_scrape_gets_the_page_as_it_is_then() -> None:
    pages = iter(["llmgw_info 1\n", "llmgw_info 2\n"])
    with serving(lambda: next(pages)) as server:
        reply, body = get(server)
        assert (reply.status, body) == (200, "llmgw_info 1\n")
        assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert get(server, "/metrics?x=1")[1] == "llmgw_info 2\n"


def test_there_is_nothing_else() -> None:
    with serving(lambda: "x 1\n") as server:
        assert get(server, "/")[0].status == 404
        assert get(server, "/metrics/../etc/passwd")[0].status == 404
        assert get(server, method="POST")[0].status == 501


def test_a_page_that_cannot_be_written_is_said_and_serving_goes_on() -> None:
    pages = iter([NodeError("the records are unreadable: /srv/secret")])

    def write() -> str:
        for page in pages:
            raise page
        return "x 1\n"

    with serving(write) as server:
        reply, body = get(server)
        assert reply.status == 500
        assert "secret" not in body
        assert "Traceback" not in body
        assert get(server)[1] == "x 1\n"


def test_a_client_that_says_nothing_holds_others_up_no_longer_than_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.1)
    with serving(lambda: "x 1\n") as server, socket.create_connection(("127.0.0.1", server.port)):
        assert get(server)[1] == "x 1\n"


def test_a_port_that_is_taken_is_an_error_in_words() -> None:
    with (
        serving(lambda: "") as server,
        pytest.raises(NodeError, match=r"cannot serve metrics on 127.0.0.1 port \d+: Add"),
    ):
        MetricsServer("127.0.0.1", server.port, lambda: "")


def test_a_closed_server_listens_no_more() -> None:
    server = MetricsServer("127.0.0.1", 0, lambda: "")
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))
