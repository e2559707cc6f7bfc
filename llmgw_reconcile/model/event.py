"""One line of the journal: what was done to which engine, when, why and by whom."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from llmgw_reconcile.model.spec import Document, model_of

FORMAT_VERSION = 1


class Result(StrEnum):
    """How an action ended."""

    DONE = "done"
    FAILED = "failed"
    NOT_TRIED = "not-tried"  # an interruption or an earlier failure came first


class Event(NamedTuple):
    """One action of one command on one engine; what is not known, or does not apply, is None."""

    at: str  # its end; UTC, RFC 3339
    node: str
    engine: str
    action: str  # start | stop | replace | adopt | update
    result: Result
    detail: str  # in words: "ready", "exit code 7"
    seconds: float | None
    command: str  # "llmgw apply"
    user: str
    sudo_user: str | None = None  # who called sudo
    state: str | None = None  # the state file
    commit: str | None = None  # checked out where the state file lies
    plan: str | None = None  # digest
    reason: str | None = None  # what the person said with --reason

    @property
    def as_json(self) -> Document:
        """As the journal keeps it."""
        return {"format_version": FORMAT_VERSION} | self._asdict() | {"result": str(self.result)}

    def is_about(self, name: str) -> bool:
        """Whether `M` or `M@N` means its engine."""
        return name in (self.engine, model_of(self.engine))


def event_of(document: Any) -> Event | None:
    """The event in a line of the journal; None for a line of another version, or for none of ours."""
    try:
        if document["format_version"] != FORMAT_VERSION:
            return None
        fields = {name: document[name] for name in Event._fields}
        event = Event(**fields | {"result": Result(fields["result"])})
    except (KeyError, TypeError, ValueError):
        return None
    texts = (event.at, event.node, event.engine, event.action, event.detail, event.command, event.user)
    return event if all(isinstance(text, str) for text in texts) else None
