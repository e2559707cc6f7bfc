"""Turn the records of an engine and the process table into the processes that are surely its own."""

from __future__ import annotations

import os
from typing import NamedTuple

from llmgw_reconcile.discovery.records import EngineRecords
from llmgw_reconcile.host.family import Family, find_marked, living_members
from llmgw_reconcile.host.proc import is_alive
from llmgw_reconcile.model.observed import ProcessId


class EngineProcesses(NamedTuple):
    """Whom the records lead to: `family` tells how to find them again, None when nothing of the engine lives."""

    family: Family | None = None
    leader: ProcessId | None = None
    leftovers: tuple[ProcessId, ...] = ()  # members that outlived the leader


def find_processes(records: EngineRecords, boot: str) -> EngineProcesses:
    """The live leader, or what outlived it. A pid file of another boot, or of another user, names nobody."""
    pid = records.pid
    if pid is not None and pid.boot_id == boot and pid.uid == os.geteuid():
        if is_alive(pid.leader):
            return EngineProcesses(pid.family, pid.leader)
        if members := living_members(pid.family):
            return EngineProcesses(pid.family, None, tuple(stat.id for stat in members))
    return _without_pid_file(records, boot)


def _without_pid_file(records: EngineRecords, boot: str) -> EngineProcesses:
    """A crash between a start and its pid file: the launch's mark in the environment finds the engine.

    While its supervisor lives, no such crash has happened, and the whole process table need not be searched.
    """
    phase = records.phase
    if phase is None or phase.boot_id != boot or phase.phase.has_ended:
        broke_off = False
    else:
        broke_off = not is_alive(phase.supervisor)
    if not records.launch_id or not (broke_off or records.pid_is_damaged):
        return EngineProcesses()
    leader = find_marked(records.launch_id)
    return EngineProcesses() if leader is None else EngineProcesses(Family(leader, launch=records.launch_id), leader)
