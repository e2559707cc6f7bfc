"""Ask an HTTP server one bounded question, step by step, so that one loop can wait for many answers and for signals.

Only what a probe needs: GET or a small POST over TCP, HTTP/1.1, no redirects, no proxies, bounded time and bytes.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Iterable
from typing import NamedTuple

BODY_LIMIT = 1 << 20
HEAD_LIMIT = 64 << 10


class Answer(NamedTuple):
    """What came back: `status` is None when nothing did, and `problem` says why."""

    status: int | None
    body: bytes = b""
    problem: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return self.status is not None and 200 <= self.status < 300


class Exchange:
    """One request under way. Poll `fileno()` for `events`, call `advance()` on each, until `answer` is set."""

    def __init__(
        self, host: str, port: int, path: str, *, timeout: float, bearer: str | None = None, body: bytes | None = None
    ) -> None:
        self.answer: Answer | None = None
        self.deadline = time.monotonic() + timeout
        self._sending = _request(host, port, path, bearer, body)
        self._received = b""
        self._timeout = timeout
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            code = self._socket.connect_ex((host, port))
        except OSError as error:  # an address that is none
            code = error.errno or errno.EINVAL
        if code not in (0, errno.EINPROGRESS):
            self._end(Answer(None, problem=_words(code)))

    def fileno(self) -> int:
        """The socket to wait for; -1 once the answer is there."""
        return self._socket.fileno()

    @property
    def events(self) -> int:
        """What to wait for: select.POLLIN or select.POLLOUT."""
        return select.POLLOUT if self._sending else select.POLLIN

    def advance(self) -> bool:
        """Go on as far as possible without waiting; True when `answer` is set."""
        if self.answer is None and time.monotonic() >= self.deadline:
            self._end(Answer(None, problem=f"no answer within {self._timeout:g} s"))
        while self.answer is None:
            try:
                if self._sending:
                    self._send()
                elif self._receive():
                    break
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                self._end(Answer(None, problem=_words(error.errno or 0)))
        return True

    def close(self) -> None:
        """Give up."""
        self._socket.close()

    def _send(self) -> None:
        if code := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, "")
        self._sending = self._sending[self._socket.send(self._sending) :]

    def _receive(self) -> bool:
        data = self._socket.recv(65536)
        self._received += data
        answer = _parse(self._received, at_end=not data)
        if answer is None and len(self._received) > BODY_LIMIT + HEAD_LIMIT:
            answer = Answer(None, problem=f"an answer of more than {BODY_LIMIT} bytes")
        if answer is not None:
            self._end(answer)
        return answer is not None

    def _end(self, answer: Answer) -> None:
        self.answer = answer
        self._socket.close()


def exchange_all(exchanges: Iterable[Exchange]) -> None:
    """Wait until each has its answer, side by side; each ends at its own time-out."""
    waiting = {exchange.fileno(): exchange for exchange in exchanges if not exchange.advance()}
    while waiting:
        poller = select.poll()
        for fd, exchange in waiting.items():
            poller.register(fd, exchange.events)
        soonest = min(exchange.deadline for exchange in waiting.values())
        ready = {fd for fd, _ in poller.poll(max(0.0, soonest - time.monotonic()) * 1000 + 1)}
        now = time.monotonic()
        for fd, exchange in list(waiting.items()):
            if (fd in ready or now >= exchange.deadline) and exchange.advance():
                del waiting[fd]


def _request(host: str, port: int, path: str, bearer: str | None, body: bytes | None) -> bytes:
    shown = f"[{host}]" if ":" in host else host
    lines = [
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1",
        f"Host: {shown}:{port}",
        "Connection: close",
        "Accept: */*",
    ]
    if bearer:
        lines.append(f"Authorization: Bearer {bearer}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + (body or b"")


def _parse(data: bytes, *, at_end: bool) -> Answer | None:
    """The answer in what was received so far; None when more must come."""
    head, gap, rest = data.partition(b"\r\n\r\n")
    if not gap:
        if at_end or len(data) > HEAD_LIMIT:
            return Answer(None, problem="an answer that is not HTTP" if data else "closed without an answer")
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not first.startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        return Answer(None, problem="an answer that is not HTTP")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = _body(rest, headers, at_end=at_end)
    return None if body is None else Answer(int(words[1]), body)


def _body(rest: bytes, headers: dict[str, str], *, at_end: bool) -> bytes | None:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        whole = _unchunk(rest)
        return whole if whole is not None or not at_end else b""
    length = headers.get("content-length", "")
    if length.isdigit():
        return rest[: int(length)] if len(rest) >= int(length) or at_end else None
    return rest if at_end else None


def _unchunk(data: bytes) -> bytes | None:
    """The body of a chunked message (RFC 9112, section 7.1); None when it is not complete."""
    body = b""
    while True:
        size_text, gap, data = data.partition(b"\r\n")
        if not gap:
            return None
        try:
            size = int(size_text.partition(b";")[0], 16)
        except ValueError:
            return b""
        if size == 0:
            return body
        if len(data) < size + 2:
            return None
        body, data = body + data[:size], data[size + 2 :]


def _words(code: int) -> str:
    known = {
        errno.ECONNREFUSED: "connection refused",
        errno.ECONNRESET: "connection reset",
        errno.ETIMEDOUT: "timed out",
    }
    return known.get(code, errno.errorcode.get(code, "connection failed"))
