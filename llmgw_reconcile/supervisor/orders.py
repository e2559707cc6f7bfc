"""What a supervisor is told about its engine, as it travels through a pipe: secrets in it never reach a file."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from llmgw_reconcile.model.process import ProcessId


class Budgets(NamedTuple):
    """What may change while the engine runs; durations in seconds."""

    start_timeout: float
    silence_timeout: float
    restart_policy: str
    max_restarts: int
    reset_after: float
    stop_grace: float

    @classmethod
    def from_bookkeeping(cls, bookkeeping: dict[str, Any]) -> Budgets:
        """From the bookkeeping part of spec.json. Raises KeyError and TypeError for what is none."""
        readiness, restart = bookkeeping["readiness"], bookkeeping["restart"]
        return cls(
            float(readiness["start_timeout"]),
            float(readiness["silence_timeout"]),
            str(restart["policy"]),
            int(restart["max_restarts"]),
            float(restart["reset_after"]),
            float(bookkeeping["stop_grace"]),
        )


class Target(NamedTuple):
    """Where and how to ask whether the engine serves."""

    host: str
    port: int
    served: tuple[str, ...]
    bearer: str | None
    health_path: str
    probe_timeout: float


class Adoption(NamedTuple):
    """A running engine that lost its supervisor."""

    leader: ProcessId
    members: tuple[ProcessId, ...]
    was_ready: bool
    restarts: int


class Orders(NamedTuple):
    """Everything that a supervisor knows."""

    engine: str
    folder: str
    launch: str
    argv: tuple[str, ...]
    env: dict[str, str]
    gpus: tuple[str, ...]
    target: Target
    budgets: Budgets
    loading_grace: float
    secrets: tuple[str, ...]  # values that no record may show
    held_above_mb: int
    adoption: Adoption | None = None

    def to_bytes(self) -> bytes:
        """One frame: four bytes of length and JSON."""
        data = json.dumps(self._asdict()).encode()
        return len(data).to_bytes(4, "big") + data

    @classmethod
    def from_bytes(cls, data: bytes) -> Orders:
        """The JSON of one frame, without its length."""
        found = json.loads(data)
        adoption = found.pop("adoption")
        return cls(
            **found
            | {
                "argv": tuple(found["argv"]),
                "gpus": tuple(found["gpus"]),
                "secrets": tuple(found["secrets"]),
                "target": Target(*found["target"])._replace(served=tuple(found["target"][2])),
                "budgets": Budgets(*found["budgets"]),
                "adoption": None if adoption is None else _adoption(adoption),
            }
        )


def _adoption(found: list[Any]) -> Adoption:
    leader, members, was_ready, restarts = found
    return Adoption(ProcessId(*leader), tuple(ProcessId(*member) for member in members), was_ready, restarts)


def read_frame(fd: int) -> bytes | None:
    """The next frame's JSON; None at the end. A frame that breaks off is the end too: its sender is gone."""
    head = _read_exactly(fd, 4)
    return None if head is None else _read_exactly(fd, int.from_bytes(head, "big"))


def _read_exactly(fd: int, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        part = os.read(fd, count - len(data))
        if not part:
            return None
        data += part
    return data
