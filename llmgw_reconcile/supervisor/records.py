"""Publish what a supervisor knows: the pid file, the phase and the exit history, each written whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.host.files import read_json, write_json
from llmgw_reconcile.host.proc import boot_id, command_line, identify
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.observed import Phase, ProcessId

FORMAT_VERSION = 1
EXITS_KEPT = 5


def command_digest(pid: int) -> str | None:
    """The fingerprint of a process: sha256 over its command line as /proc shows it; None when it shows none."""
    line = command_line(pid)
    return "sha256:" + hashlib.sha256("\0".join(line).encode()).hexdigest() if line else None


class Records:
    """The records of one engine, written by its supervisor alone."""

    def __init__(self, engine: str, folder: EngineDir, launch: str) -> None:
        self._engine, self._folder, self._launch = engine, folder, launch
        self._boot = boot_id()
        me = identify(os.getpid())
        self._me = me if me is not None else ProcessId(os.getpid(), 0)
        self._phase: dict[str, Any] = {}

    def publish_phase(self, phase: Phase, *, detail: str = "", restarts: int = 0, ready_at: str | None = None) -> None:
        """Say which phase the engine is in; nothing is written when nothing changed."""
        now = {
            "phase": str(phase),
            "detail": detail,
            "restarts": restarts,
            "ready_at": ready_at,
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
        try:
            os.unlink(self._folder.file("pid.json"))
        except OSError:
            return

    def record_exit(self, entry: dict[str, Any]) -> None:
        """Add one end to the history; the first failure since the engine was last ready is never pushed out."""
        try:
            known = (read_json(self._folder.file("exits.json")) or {}).get("exits", [])
        except ValueError:
            known = []
        exits = [*known, entry]
        while len(exits) > EXITS_KEPT:
            del exits[1 if len(exits) > 1 and not exits[1].get("was_ready") else 0]
        self._write("exits.json", {"format_version": FORMAT_VERSION, "exits": exits})

    def _write(self, name: str, document: dict[str, Any]) -> None:
        try:
            write_json(self._folder.file(name), document)
        except NodeError:
            # A full disk must not end the supervisor: the engine serves on, and the next change is written again.
            self._phase = {}
