"""See engines end, and supervisors with them: by what supervisors publish, and at once by the kernel's word."""

from __future__ import annotations

import os
from typing import NamedTuple

from llmgw_reconcile.discovery.records import read_records
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.proc import boot_id, is_alive
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.observed import Phase, ProcessId
from llmgw_reconcile.workflow.waiting import failure_of

Stamp = tuple[int, int]


class Change(NamedTuple):
    """What is new of an engine."""

    engine: str
    phase: Phase | None  # None: its records are gone
    detail: str = ""
    needs_a_look: bool = False  # it ended, or nobody watches over it any more: a plan may have something to do


class _Seen(NamedTuple):
    stamp: Stamp
    supervisor: ProcessId | None
    pidfd: int  # of its supervisor; -1: there is none


class EngineWatch:
    """All engines that have records. Cheap: one stat(2) an engine, and a record is read only when it changed."""

    def __init__(self, state_dir: StateDir) -> None:
        self._state_dir = state_dir
        self._seen: dict[str, _Seen] = {}

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable as soon as a supervisor has ended."""
        return tuple(seen.pidfd for seen in self._seen.values() if seen.pidfd >= 0)

    def look(self) -> tuple[Change, ...]:
        """What changed since the last look; at the first look, every engine."""
        names = self._state_dir.engine_names()
        gone = [engine for engine in self._seen if engine not in names]
        for engine in gone:
            _close(self._seen.pop(engine))
        changed = filter(None, map(self._look_at, names))
        return (*(Change(engine, None) for engine in gone), *changed)

    def close(self) -> None:
        """Watch no more."""
        for seen in self._seen.values():
            _close(seen)
        self._seen = {}

    def _look_at(self, engine: str) -> Change | None:
        folder = self._state_dir.engine(engine)
        before, stamp = self._seen.get(engine), _stamp(folder.file("phase.json"))
        ended = before is not None and before.supervisor is not None and not is_alive(before.supervisor)
        if stamp is None or (before is not None and before.stamp == stamp and not ended):
            return None
        if before is not None:
            _close(before)
        try:
            records = read_records(engine, folder)
        except NodeError as error:
            self._seen[engine] = _Seen(stamp, None, -1)
            return Change(engine, Phase.ORPHANED, str(error), needs_a_look=True)
        said = records.phase
        lives = said is not None and said.boot_id == boot_id() and is_alive(said.supervisor)
        supervisor = said.supervisor if said is not None and lives else None
        self._seen[engine] = _Seen(stamp, supervisor, _pidfd(supervisor))
        if said is None:
            return None
        if said.phase is Phase.FAILED:
            failure = failure_of(records)
            words = "; ".join(dict.fromkeys(filter(None, (failure.summary, failure.cause, failure.hint))))
            return Change(engine, said.phase, words, needs_a_look=True)
        if said.phase.has_ended or lives:
            return Change(engine, said.phase, said.detail, needs_a_look=said.phase.has_ended)
        return Change(engine, Phase.ORPHANED, "its supervisor is gone", needs_a_look=True)


def _pidfd(process: ProcessId | None) -> int:
    if process is None:
        return -1
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return -1
    if is_alive(process):  # the pidfd pins whoever has the pid now: look again behind it
        return fd
    os.close(fd)
    return -1


def _close(seen: _Seen) -> None:
    if seen.pidfd >= 0:
        os.close(seen.pidfd)


def _stamp(path: str) -> Stamp | None:
    """What differs between two publications: each is a new file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
