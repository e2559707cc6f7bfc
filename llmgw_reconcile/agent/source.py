"""Where the desired state comes from: a file on this node that somebody else may write at any time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from llmgw_reconcile.agent.file_watch import FileWatch
from llmgw_reconcile.errors import LlmgwError
from llmgw_reconcile.host.checkout import commit_of
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DesiredState, SecretRef
from llmgw_reconcile.workflow.applied import last_applied
from llmgw_reconcile.workflow.applying import Wish
from llmgw_reconcile.workflow.reading import state_from, state_from_bytes

SHORT_COMMIT = 12  # characters, for people


class Source(Protocol):
    """What the loop asks for its state."""

    @property
    def look_at(self) -> float:
        """When to call `has_changed` (monotonic)."""

    @property
    def is_settling(self) -> bool:
        """Whether it is being changed just now, so that it is better read a moment later."""

    def has_changed(self) -> bool:
        """Whether there is something new to read."""

    def hurry(self) -> None:
        """A person wants to see the newest."""

    def read(self) -> Wish:
        """The state as it is wanted now. Raises StateFileError, RefusedError or NodeError."""

    def accept(self, wish: Wish) -> None:
        """This state, the last one read, is what the node is held to from now on. Raises NodeError."""

    def refuse(self, wish: Wish) -> None:
        """It was read, and a guard refused it: files beside it must be those of the last good one again."""

    def kept(self) -> Wish | None:
        """What an earlier agent held the node to; None where that is not known."""

    def version(self, wish: Wish) -> dict[str, str | None]:
        """What names a state in events: file, digest, commit."""


class FileSource:
    """A state file, and the files that it names."""

    def __init__(self, path: str, state_dir: StateDir, clock: Clock) -> None:
        self._path, self._state_dir = path, state_dir
        self._watch = FileWatch(clock, [path])

    @property
    def look_at(self) -> float:
        """When to call `has_changed` (monotonic)."""
        return self._watch.look_at

    @property
    def is_settling(self) -> bool:
        """Whether it is being changed just now, so that it is better read a moment later."""
        return self._watch.is_settling

    def has_changed(self) -> bool:
        """Whether there is something new to read."""
        return self._watch.look()

    def hurry(self) -> None:
        """It is read anew for each round anyway."""

    def read(self) -> Wish:
        """The state in the file. Raises StateFileError."""
        state, data, _ = state_from(self._path)
        self._watch.watch([self._path, *named_files(state)])
        return Wish(state, data)

    def accept(self, wish: Wish) -> None:
        """Nothing is to be kept: the record of the last apply is."""

    def refuse(self, wish: Wish) -> None:
        """The file stays as its author left it."""

    def kept(self) -> Wish | None:
        """What was applied last, if it was this file."""
        path = os.path.abspath(self._path)
        try:
            last = last_applied(self._state_dir)
            if last is None or last.file != path:
                return None
            return Wish(state_from_bytes(path, last.data, os.path.dirname(path)), last.data)
        except LlmgwError:
            return None

    def version(self, wish: Wish) -> dict[str, str | None]:
        """What names a state in events: file, digest, commit."""
        return {"file": self._path, "digest": wish.state.digest, "commit": commit_of(self._path)}


def named_files(state: DesiredState) -> tuple[str, ...]:
    """Files whose content belongs to the state: secrets, `{file:}` items of `args`, engines' own configuration."""
    return tuple(dict.fromkeys(_named_files(state)))


def _named_files(state: DesiredState) -> Iterator[str]:
    for model in state.models:
        secrets = (model.api_key, *model.env.values())
        yield from (ref.name for ref in secrets if isinstance(ref, SecretRef) and ref.source == "file")
        yield from (item.path for item in (*model.args, *model.config_files) if not isinstance(item, str))
