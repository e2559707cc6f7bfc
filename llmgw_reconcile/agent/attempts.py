"""Remember what was tried for each engine over a restart of the agent: one record in the state directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from llmgw_reconcile.agent.restraint import Attempt
from llmgw_reconcile.host.files import private_directory, read_json, write_json
from llmgw_reconcile.host.proc import boot_id
from llmgw_reconcile.host.state_dir import StateDir

FORMAT_VERSION = 1


class Attempts:
    """Engine -> its last attempt. What cannot be written is kept in memory, and written with the next change."""

    def __init__(self, state_dir: StateDir) -> None:
        self._folder = os.path.join(state_dir.root, "agent")
        self._path = os.path.join(self._folder, "attempts.json")
        self._found = self._read()
        self._written = dict(self._found)

    def get(self, engine: str) -> Attempt | None:
        """The last attempt; None when there was none."""
        return self._found.get(engine)

    def note(self, engine: str, attempt: Attempt) -> None:
        """This was tried."""
        self._found[engine] = attempt

    def drop(self, engine: str) -> None:
        """It serves: what was tried before does not count any more."""
        self._found.pop(engine, None)

    def keep_only(self, engines: Collection[str]) -> None:
        """Forget the engines that no state names any more."""
        self._found = {engine: attempt for engine, attempt in self._found.items() if engine in engines}

    def write(self) -> None:
        """Put it on the disk when it changed. Raises NodeError."""
        if self._found == self._written:
            return
        private_directory(self._folder)
        attempts = {engine: attempt._asdict() for engine, attempt in self._found.items()}
        write_json(self._path, {"format_version": FORMAT_VERSION, "attempts": attempts})
        self._written = dict(self._found)

    def _read(self) -> dict[str, Attempt]:
        """A record that cannot be believed is none: at worst a launch that failed is tried once more."""
        try:
            found = read_json(self._path, lambda record: record.get("format_version") == FORMAT_VERSION) or {}
            return {engine: Attempt(**attempt) for engine, attempt in found.get("attempts", {}).items()}
        except (ValueError, TypeError, AttributeError):
            return {}


def program_mark(path: str, boot: Callable[[], str] = boot_id) -> str:
    """What tells a program from another one and from itself after a change: also whether the node was booted since.

    What failed under one boot may succeed under the next: the driver is loaded anew, and memory is free again.
    """
    try:
        found = os.stat(path)
    except OSError:
        return f"{boot()} {path}"
    return f"{boot()} {path} {found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"
