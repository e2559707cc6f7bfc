"""Publish what a supervisor knows: the pid file, the phase and the exit history, each written whole.

A disk that is full must not end a supervisor: its engine serves on. What could not be written is owed, and written as
soon as it can be.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.host.files import read_json, write_json
from llmgw_reconcile.host.proc import boot_id, command_digest, identify
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.process import Phase, ProcessId
from llmgw_reconcile.supervisor.wake import NEVER

FORMAT_VERSION = 1
EXITS_KEPT = 5
RETRY_SECONDS = 5.0  # between attempts to write what is owed


class Records:
    """The records of one engine, written by its supervisor alone."""

    def __init__(self, engine: str, folder: EngineDir, launch: str) -> None:
        self._engine, self._folder, self._launch = engine, folder, launch
        self._boot = boot_id()
        me = identify(os.getpid())
        self._me = me if me is not None else ProcessId(os.getpid(), 0)
        self._phase: dict[str, Any] = {}
        self._owed: dict[str, Any] = {}
        self._retry_at = 0.0
        self.trouble = ""  # why something is owed

    def publish_phase(
        self,
        phase: Phase,
        *,
        detail: str = "",
        restarts: int = 0,
        ready_at: str | None = None,
        load_seconds: float | None = None,
    ) -> None:
        """Say which phase the engine is in; nothing is written when nothing changed.

        `load_seconds`: from the start of its process until it was ready; None before that, and where nobody saw it.
        """
        now = {
            "phase": str(phase),
            "detail": detail,
            "restarts": restarts,
            "ready_at": ready_at,
            "load_seconds": load_seconds,
            "launch": self._launch,
        }
        if all(self._phase.get(name) == value for name, value in now.items()):
            return
        since = self._phase["since"] if self._phase.get("phase") == str(phase) else utc_now()
        self._phase = now | {"since": since}
        mine = {"format_version": FORMAT_VERSION, "engine": self._engine, "boot_id": self._boot}
        self._write("phase.json", mine | {"supervisor": self._me._asdict()} | self._phase)

    def publish_pid(self, leader: ProcessId, members: Iterable[ProcessId] = (), *, was_ready: bool = False) -> None:
        """Write the pid file. `members` are those that are surely the engine's now."""
        self._write(
            "pid.json",
            {
                "format_version": FORMAT_VERSION,
                "engine": self._engine,
                "boot_id": self._boot,
                "pid": leader.pid,
                "ticks": leader.ticks,
                "pgid": leader.pid,
                "sid": leader.pid,
                "uid": os.geteuid(),
                "cmdline_digest": command_digest(leader.pid),
                "launch": self._launch,
                "supervisor": self._me._asdict(),
                "members": sorted(list(member) for member in members),
                "was_ready": was_ready,
            },
        )

    def forget_pid(self) -> None:
        """Remove the pid file, after the proof that nothing of the engine lives."""
        self._owed.pop("pid.json", None)
        try:
            os.unlink(self._folder.file("pid.json"))
        except OSError:
            return

    def record_exit(self, entry: dict[str, Any]) -> None:
        """Add one end to the history; the first failure since the engine was last ready is never pushed out."""
        exits = [*self._known_exits(), entry]
        while len(exits) > EXITS_KEPT:
            del exits[0 if exits[1].get("was_ready") else 1]
        self._write("exits.json", {"format_version": FORMAT_VERSION, "exits": exits})

    def settle(self, now: float) -> float:
        """Write what is owed, when it is time to try; when to call again (monotonic), NEVER if nothing is owed."""
        if self._owed and now >= self._retry_at:
            self._retry_at = now + RETRY_SECONDS
            for name, document in tuple(self._owed.items()):
                self._write(name, document)
        return self._retry_at if self._owed else NEVER

    def _known_exits(self) -> list[dict[str, Any]]:
        try:
            found = self._owed.get("exits.json") or read_json(self._folder.file("exits.json")) or {}
            return [entry for entry in found["exits"] if isinstance(entry, dict)]
        except (ValueError, KeyError, TypeError):  # none yet, or not believed
            return []

    def _write(self, name: str, document: Any) -> None:
        try:
            write_json(self._folder.file(name), document)
        except NodeError as error:
            self._owed[name], self.trouble = document, str(error)
        else:
            self._owed.pop(name, None)
