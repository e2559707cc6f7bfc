"""Ask an HTTP server one bounded question, step by step, so that one loop can wait for many answers and for signals.

Only what a probe needs: GET over TCP, HTTP/1.1, no redirects, no proxies, bounded time and bytes.
"""

from __future__ import annotations

import _socket as socket  # of `socket` only what the kernel gives: a supervisor is to stay small
import errno
import select
import time
from typing import NamedTuple

BODY_LIMIT = 1 << 20
HEAD_LIMIT = 64 << 10
CHUNK_HEAD_LIMIT = 256  # the size of a chunk and its extensions
NOT_HTTP = "an answer that is not HTTP"
TOO_LONG = f"an answer of more than {BODY_LIMIT} bytes"


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

    def __init__(self, host: str, port: int, path: str, *, timeout: float, bearer: str | None = None) -> None:
        self.answer: Answer | None = None
        self.deadline = time.monotonic() + timeout
        self._sending = _request(host, port, path, bearer)
        self._reader = AnswerReader()
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
        while self.answer is None:
            if time.monotonic() >= self.deadline:
                self._end(Answer(None, problem=f"no answer within {self._timeout:g} s"))
                break
            try:
                if self._sending:
                    self._send()
                elif (answer := self._reader.take(self._socket.recv(1 << 16))) is not None:
                    self._end(answer)
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

    def _end(self, answer: Answer) -> None:
        self.answer = answer
        self._socket.close()


class AnswerReader:
    """Turns received bytes, piece by piece, into an answer."""

    def __init__(self) -> None:
        self._data = bytearray()  # of the head, then what of the body is not decoded yet
        self._body = bytearray()
        self._status: int | None = None
        self._length: int | None = None  # None: until the end, or in chunks
        self._in_chunks = False

    def take(self, piece: bytes) -> Answer | None:
        """The answer, when these bytes complete it or show that there is none; an empty piece is the end."""
        self._data += piece
        if self._status is None:
            problem = self._read_head(at_end=not piece)
            if problem:
                return Answer(None, problem=problem)
            if self._status is None:
                return None
        return self._read_body(at_end=not piece)

    def _read_head(self, *, at_end: bool) -> str:
        """What is wrong with the head; empty while it may yet be right."""
        if not b"HTTP/1.".startswith(bytes(self._data[:7])):
            return NOT_HTTP
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            if at_end:
                return NOT_HTTP if self._data else "closed without an answer"
            return NOT_HTTP if len(self._data) > HEAD_LIMIT else ""
        first, *lines = self._data[:end].decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        status = _number(words[1]) if len(words) > 1 and len(words[1]) == 3 else None
        if status is None:
            return NOT_HTTP
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._status = status
        self._in_chunks = "chunked" in headers.get("transfer-encoding", "").lower()
        self._length = None if self._in_chunks else _number(headers.get("content-length", ""))
        del self._data[: end + 4]
        return ""

    def _read_body(self, *, at_end: bool) -> Answer | None:
        is_whole = at_end
        if self._in_chunks:
            is_whole |= self._unchunk()
        else:
            self._body += self._data
            self._data.clear()
            if self._length is not None and len(self._body) >= self._length:
                del self._body[self._length :]
                is_whole = True
        if len(self._body) + len(self._data) > BODY_LIMIT:
            return Answer(None, problem=TOO_LONG)
        return Answer(self._status, bytes(self._body)) if is_whole else None

    def _unchunk(self) -> bool:
        """Decode the chunks that are complete (RFC 9112, section 7.1); True at the last one, or at nonsense."""
        at = 0
        while (gap := self._data.find(b"\r\n", at, at + CHUNK_HEAD_LIMIT)) >= 0:
            size = _number(self._data[at:gap].partition(b";")[0].strip().decode("latin-1"), base=16)
            if not size:
                return True
            end = gap + 2 + size + 2
            if len(self._data) < end:
                break
            self._body += self._data[gap + 2 : end - 2]
            at = end
        del self._data[:at]
        return gap < 0 and len(self._data) > CHUNK_HEAD_LIMIT


def _request(host: str, port: int, path: str, bearer: str | None) -> bytes:
    shown = f"[{host}]" if ":" in host else host
    lines = [f"GET {path} HTTP/1.1", f"Host: {shown}:{port}", "Connection: close", "Accept: */*"]
    if bearer and bearer.isprintable():  # a key with a line break would begin a second header
        lines.append(f"Authorization: Bearer {bearer}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def _number(text: str, base: int = 10) -> int | None:
    """A number in bare digits; int() alone would take signs, blanks, underscores and digits of other scripts too."""
    digits = "0123456789" if base == 10 else "0123456789abcdefABCDEF"
    return int(text, base) if 0 < len(text) <= 16 and not text.strip(digits) else None


def _words(code: int) -> str:
    known = {
        errno.ECONNREFUSED: "connection refused",
        errno.ECONNRESET: "connection reset",
        errno.ETIMEDOUT: "timed out",
    }
    return known.get(code, errno.errorcode.get(code, "connection failed"))
