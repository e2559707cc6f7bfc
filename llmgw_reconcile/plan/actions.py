"""The vocabulary of a plan: actions, what changes, and the plan as a value."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.launch import Launch
from llmgw_reconcile.model.spec import EngineSpec


class ActionKind(StrEnum):
    """Exactly one for each engine that is wanted or observed; declared in the order of carrying out."""

    STOP = "stop"
    ADOPT = "adopt"
    UPDATE = "update"  # bookkeeping that needs no restart
    START = "start"
    REPLACE = "replace"
    KEEP = "keep"
    BLOCKED = "blocked"


class FieldChange(NamedTuple):
    """One field, before and after, as JSON values; a secret is `(secret)` on either side."""

    field: str
    before: Any
    after: Any
    forces_replace: bool


class Action(NamedTuple):
    """What happens to one engine, why, and what exactly."""

    kind: ActionKind
    engine: str
    reason: str
    changes: tuple[FieldChange, ...] = ()
    at_next_start: tuple[FieldChange, ...] = ()  # derived differently now; counts as no change
    gpus: tuple[str, ...] = ()
    gpu_labels: tuple[str, ...] = ()  # for people, as `gpus`: "0", "1"; the UUID of a card that is not known
    gpu_classes: tuple[str, ...] = ()  # as `gpus`: "h100-80g"; "unknown"
    port: int | None = None
    surge: bool = False  # replace: start first
    command: tuple[str, ...] = ()  # secrets masked
    environment: tuple[tuple[str, str], ...] = ()  # secrets masked
    spec: EngineSpec | None = None  # for carrying out; None for a stop
    launch: Launch | None = None  # for carrying out
    diagnostics: tuple[Diagnostic, ...] = ()  # errors: why it is blocked; warnings: what to know


class Plan(NamedTuple):
    """Ordered actions that lead from observed to desired, and all that was found on the way."""

    node: str
    state: str
    actions: tuple[Action, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    digest: str = ""

    def count(self, kind: ActionKind) -> int:
        """How many actions are of that kind."""
        return sum(action.kind is kind for action in self.actions)

    @property
    def has_changes(self) -> bool:
        """Whether an apply would do anything."""
        return any(a.kind not in (ActionKind.KEEP, ActionKind.BLOCKED) for a in self.actions)

    @property
    def has_errors(self) -> bool:
        """Whether an engine is blocked or the node could not be read."""
        return self.count(ActionKind.BLOCKED) > 0 or any(d.severity is Severity.ERROR for d in self.diagnostics)
