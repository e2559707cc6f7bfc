"""One bounded question to servers of every kind: quick, slow, endless, and none at all."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from llmgw_reconcile.host.http import BODY_LIMIT, Answer, AnswerReader, Exchange
from tests.fakes.procs import free_port

OK = b"HTTP/1.1 200 OK\r\n"
NOT_HTTP = Answer(None, problem="an answer that is not HTTP")
TOO_LONG = Answer(None, problem="an answer of more than 1048576 bytes")


def read(data: bytes, step: int) -> Answer | None:
    """The answer that a reader finds when the bytes come in pieces of this size, and then the end."""
    reader = AnswerReader()
    for at in range(0, len(data), step):
        if (answer := reader.take(data[at : at + step])) is not None:
            return answer
    return reader.take(b"")


@pytest.mark.parametrize("step", [1, 7, 1 << 16], ids=["byte-by-byte", "in-pieces", "at-once"])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(OK + b"Content-Length: 4\r\n\r\nbody", Answer(200, b"body"), id="with-a-length"),
        pytest.param(OK + b"content-length:2\r\n\r\nbody", Answer(200, b"bo"), id="no-more-than-the-length"),
        pytest.param(OK + b"Content-Length: 0\r\n\r\n", Answer(200), id="an-empty-body"),
        pytest.param(OK + b"\r\nto the end", Answer(200, b"to the end"), id="until-it-closes"),
        pytest.param(OK + b"Content-Length: 9\r\n\r\nbroken", Answer(200, b"broken"), id="a-body-that-breaks-off"),
        pytest.param(OK + b"Content-Length: \xb2\r\n\r\nbody", Answer(200, b"body"), id="a-length-that-is-none"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n",
            Answer(200, b"Wikipedia"),
            id="in-chunks",
        ),
        pytest.param(
            OK + b"Transfer-Encoding: gzip, Chunked\r\nContent-Length: 1\r\n\r\n1A\r\n" + b"z" * 26 + b"\r\n0\r\n\r\n",
            Answer(200, b"z" * 26),
            id="chunks-beat-a-length",
        ),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nx\r\n", Answer(200), id="a-negative-chunk"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nWi", Answer(200), id="chunks-that-break-off"),
        pytest.param(b"HTTP/1.0 503 Loading model\r\n\r\n", Answer(503), id="not-ready"),
        pytest.param(b"HTTP/1.1 302 Found\r\nLocation: /login\r\n\r\n", Answer(302), id="a-redirect-is-not-followed"),
        pytest.param(b"HTTP/1.1 200\r\n\r\n", Answer(200), id="without-a-reason"),
        pytest.param(b"", Answer(None, problem="closed without an answer"), id="nothing"),
        pytest.param(b"HTTP/1.1 20", NOT_HTTP, id="a-head-that-breaks-off"),
        pytest.param(b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n", NOT_HTTP, id="a-status-in-other-digits"),
        pytest.param(b"HTTP/1.1 20000 OK\r\n\r\n", NOT_HTTP, id="a-status-of-five-digits"),
        pytest.param(b"HTTP/2 200\r\n\r\n", NOT_HTTP, id="another-version"),
        pytest.param(b"\x15\x03\x01\x00\x02\x02\x46", NOT_HTTP, id="tls"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", NOT_HTTP, id="ssh"),
        pytest.param(OK + b"X: y\r\n" * 20_000, NOT_HTTP, id="a-head-without-end"),
    ],
)
def test_an_answer_is_read_whatever_its_pieces(data: bytes, step: int, expected: Answer) -> None:
    assert read(data, step) == expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(OK + b"\r\n" + b"x" * (BODY_LIMIT + 1), id="until-it-closes"),
        pytest.param(OK + b"Content-Length: 99999999\r\n\r\n" + b"x" * (BODY_LIMIT + 1), id="with-a-length"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n" + (b"400\r\n" + b"x" * 1024 + b"\r\n") * 1025, id="many-chunks"
        ),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n" + b"x" * (BODY_LIMIT + 1), id="huge-chunk"),
    ],
)
def test_a_body_has_a_limit(data: bytes) -> None:
    reader = AnswerReader()
    answers = (reader.take(data[at : at + 65536]) for at in range(0, len(data), 65536))
    assert next(answer for answer in answers if answer is not None) == TOO_LONG


def test_a_million_tiny_chunks_take_no_time() -> None:
    data = OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 170_000
    before = time.process_time()
    reader = AnswerReader()
    for at in range(0, len(data), 65536):
        reader.take(data[at : at + 65536])
    assert time.process_time() - before < 2.0


# -- over real sockets


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server of one connection, in a thread; the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        try:
            connection, _ = listener.accept()
            with connection:
                serve(connection)
        except OSError:
            pass  # the client gave up

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        thread.join(5)


def ask(port: int, *, host: str = "127.0.0.1", path: str = "/health", timeout: float = 5.0, **key: str) -> Answer:
    exchange = Exchange(host, port, path, timeout=timeout, **key)  # type: ignore[arg-type]
    while not exchange.advance():
        poller = select.poll()
        poller.register(exchange.fileno(), exchange.events)
        poller.poll(max(0.0, exchange.deadline - time.monotonic()) * 1000 + 1)
    assert exchange.fileno() == -1
    assert exchange.answer is not None
    return exchange.answer


def saying(data: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(data)

    return serve


def until_closed(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def test_the_request_is_plain_and_closes() -> None:
    heard: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        heard.append(connection.recv(65536))
        connection.sendall(OK + b"Content-Length: 2\r\n\r\n{}")

    with server(serve) as port:
        assert ask(port, path="/v1/models", bearer="sk-1") == Answer(200, b"{}")
    assert heard == [
        f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nAccept: */*\r\n"
        "Authorization: Bearer sk-1\r\n\r\n".encode()
    ]


def test_a_key_with_a_line_break_adds_no_header() -> None:
    heard: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        heard.append(connection.recv(65536))
        connection.sendall(OK + b"\r\n")

    with server(serve) as port:
        ask(port, bearer="a\r\nX-Evil: b")
    assert b"Evil" not in heard[0]


def test_2xx_alone_is_success() -> None:
    assert [Answer(status).is_success for status in (None, 199, 200, 204, 299, 302, 401, 503)] == [
        False, False, True, True, True, False, False, False,
    ]  # fmt: skip


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with server(saying(OK + b"\r\n")) as port:
        assert ask(port).status == 200


def test_nobody_listens() -> None:
    assert ask(free_port()) == Answer(None, problem="connection refused")


@pytest.mark.parametrize("host", ["no such host", "256.1.1.1", "::bad::"])
def test_an_address_that_is_none_is_an_answer_and_no_exception(host: str) -> None:
    assert ask(8000, host=host).status is None


def test_a_connection_that_is_reset() -> None:
    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with server(serve) as port:
        assert ask(port).problem in ("connection reset", "closed without an answer")


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(until_closed, id="it-says-nothing"),
        pytest.param(lambda c: (c.sendall(b"H"), until_closed(c)), id="one-byte"),
        pytest.param(lambda c: (c.sendall(OK), until_closed(c)), id="half-a-head"),
        pytest.param(lambda c: (c.sendall(OK + b"Content-Length: 9\r\n\r\nbo"), until_closed(c)), id="half-a-body"),
    ],
)
def test_silence_ends_at_the_time_out(serve: Callable[[socket.socket], None]) -> None:
    with server(serve) as port:
        before = time.monotonic()
        assert ask(port, timeout=0.3) == Answer(None, problem="no answer within 0.3 s")
        assert 0.29 <= time.monotonic() - before < 1.0


def test_drops_for_ever_end_at_the_time_out() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"1\r\nx\r\n")

    with server(serve) as port:
        before = time.monotonic()
        answer = ask(port, timeout=0.3)
        assert answer.status is None
        assert time.monotonic() - before < 2.0


def test_a_flood_ends_at_the_limit() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    with server(serve) as port:
        assert ask(port) == TOO_LONG


def test_a_full_backlog_ends_at_the_time_out() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        crowd = [socket.socket() for _ in range(4)]
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        assert ask(port, timeout=0.2) == Answer(None, problem="no answer within 0.2 s")
        for one in crowd:
            one.close()


def test_an_ipv6_address_is_asked_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    heard: list[bytes] = []
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with listener:
        exchange = Exchange("::1", listener.getsockname()[1], "/", timeout=5)
        connection, _ = listener.accept()
        with connection:
            exchange.advance()
            heard.append(connection.recv(65536))
            exchange.close()
    assert b"\r\nHost: [::1]:" in heard[0]


def test_given_up_it_holds_no_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        exchange = Exchange("127.0.0.1", listener.getsockname()[1], "/", timeout=5)
        exchange.close()
        assert exchange.fileno() == -1
