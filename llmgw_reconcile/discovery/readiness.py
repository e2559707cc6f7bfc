"""Ask one engine whether it serves: four answers in one round, or the words for what is missing.

Ready means that the process lives, every listener on its port belongs to it, `/health` is 2xx and `/v1/models` names
the served model. A SO_REUSEPORT twin would take half the requests; a server of somebody else would answer for a dead
engine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from llmgw_reconcile.host.http import Answer, Exchange
from llmgw_reconcile.host.sockets import Listener, listeners_at, owned_inodes, tcp_listeners

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - an engine may listen everywhere; asked on loopback


class Standing(StrEnum):
    """How far an engine got."""

    SILENT = "silent"  # nothing answers on its port
    ANSWERING = "answering"  # something answers, and it is not ready
    READY = "ready"


class Verdict(NamedTuple):
    """The outcome of a round: `detail` says what is missing, the rest what a ready engine tells of itself."""

    standing: Standing
    detail: str = ""
    context: int | None = None  # tokens
    version: str | None = None


class Question(NamedTuple):
    """What to ask, and whose listener it must be."""

    host: str
    port: int
    served: tuple[str, ...]
    bearer: str | None
    health_path: str
    timeout: float  # seconds for each request
    version_path: str = ""  # asked last, and only for the record: its answer decides nothing


class ReadinessRound:
    """One round under way: poll `fileno()` for `events` until `deadline`, `advance()` until it gives a verdict."""

    def __init__(
        self,
        question: Question,
        find_pids: Callable[[], Iterable[int]],
        find_listeners: Callable[[], Iterable[Listener]] = tcp_listeners,
    ) -> None:
        self._question = question
        self._find_pids = find_pids
        self._find_listeners = find_listeners
        self._path = question.health_path
        self._exchange = self._ask(self._path)
        self._verdict: Verdict | None = None  # known before the version is asked

    def fileno(self) -> int:
        """The socket to wait for."""
        return self._exchange.fileno()

    @property
    def events(self) -> int:
        """What to wait for."""
        return self._exchange.events

    @property
    def deadline(self) -> float:
        """When to call `advance` at the latest (monotonic)."""
        return self._exchange.deadline

    def advance(self) -> Verdict | None:
        """Go on without waiting; the verdict when the round is over."""
        while self._exchange.advance():
            answer = self._exchange.answer
            assert answer is not None
            if self._verdict is not None:
                return self._verdict._replace(version=told_version(answer))
            if not answer.is_success:
                return _missing(self._path, answer)
            if self._path == self._question.health_path:
                self._path = "/v1/models"
            else:
                verdict = self._judge(answer)
                if verdict.standing is not Standing.READY or not self._question.version_path:
                    return verdict
                self._verdict, self._path = verdict, self._question.version_path
            self._exchange = self._ask(self._path)
        return None

    def close(self) -> None:
        """Give up."""
        self._exchange.close()

    def _ask(self, path: str) -> Exchange:
        host = WILDCARDS.get(self._question.host, self._question.host)
        return Exchange(host, self._question.port, path, timeout=self._question.timeout, bearer=self._question.bearer)

    def _judge(self, answer: Answer) -> Verdict:
        models = served_models(answer.body)
        ours = [name for name in models if name in self._question.served]
        if not ours:
            wanted, found = ", ".join(self._question.served), ", ".join(models) or "no model"
            return Verdict(Standing.ANSWERING, f"/v1/models names {found[:200]}, not {wanted}")
        ready = Verdict(Standing.READY, context=models[ours[0]])
        where = (self._question.host, self._question.port)
        return stranger_on(*where, self._find_listeners(), self._find_pids()) or ready


def stranger_on(host: str, port: int, listeners: Iterable[Listener], pids: Iterable[int]) -> Verdict | None:
    """A verdict against readiness when a listener at the address is not held by these processes."""
    inodes = frozenset(listener.inode for listener in listeners_at(host, port, listeners))
    if not inodes:
        return Verdict(Standing.SILENT, f"nothing listens on port {port}")
    if owned_inodes(pids, inodes) != inodes:
        return Verdict(Standing.ANSWERING, f"a process that is not the engine listens on port {port}")
    return None


def served_models(body: bytes) -> dict[str, int | None]:
    """The ids of an OpenAI model list, each with the context it takes where that is told; none of any other body."""
    try:
        entries = json.loads(body)["data"]
        return {entry["id"]: _tokens(entry.get("max_model_len")) for entry in entries if isinstance(entry["id"], str)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def told_version(answer: Answer) -> str | None:
    """The version in an answer of vLLM's /version."""
    try:
        version = json.loads(answer.body)["version"] if answer.is_success else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, str) else None


def _tokens(found: object) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def run_rounds(rounds: Sequence[ReadinessRound]) -> tuple[Verdict, ...]:
    """Carry all rounds out side by side; the verdicts in the order of the rounds."""
    import select

    verdicts: dict[int, Verdict] = {}
    waiting = dict(enumerate(rounds))
    while waiting:
        for number, one in list(waiting.items()):
            if (verdict := one.advance()) is not None:
                verdicts[number] = verdict
                del waiting[number]
        if not waiting:
            break
        poller = select.poll()
        for one in waiting.values():
            poller.register(one.fileno(), one.events)
        soonest = min(one.deadline for one in waiting.values())
        poller.poll(max(0.0, soonest - time.monotonic()) * 1000 + 1)
    return tuple(verdicts[number] for number in range(len(rounds)))


def _missing(path: str, answer: Answer) -> Verdict:
    if answer.status is None:
        standing = Standing.SILENT if answer.problem == "connection refused" else Standing.ANSWERING
        return Verdict(standing, f"{path}: {answer.problem}")
    return Verdict(Standing.ANSWERING, f"{path} answers {answer.status}")
