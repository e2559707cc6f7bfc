"""Find every living process of one engine, and only those that are proven to be its.

The proof (there is no other): the session is ours while its leader lives with the recorded start ticks. When the
leader is gone and nobody has its pid, the kernel keeps the number reserved while the session has members; they are
ours when one of them was recorded, or carries the launch in its environment. When the pid belongs to a later process,
the session is a stranger's. Ours wherever they moved are recorded members that still live with their ticks, processes
of this user that carry the launch, what the supervisor inherited, and the descendants of all of these. Engines rename
their children and erase their environment: names prove nothing, and a missing mark disproves nothing.

A member that became another user's is a member still: whoever may not signal it must not call the engine stopped.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import NamedTuple

from llmgw_reconcile.host.proc import ProcessStat, all_stats, environment_holds, owner_of
from llmgw_reconcile.model.process import ProcessId

LAUNCH_VARIABLE = "LLMGW_LAUNCH"


class Family(NamedTuple):
    """What is recorded of an engine's processes: the leader founded session and group with its own pid."""

    leader: ProcessId
    recorded: frozenset[ProcessId] = frozenset()  # members seen when they were surely ours
    launch: str = ""
    reaper: int = 0  # the live supervisor: strays that lost their parent become its children
    bystanders: frozenset[ProcessId] = frozenset()  # children of the supervisor that are no part of the engine


def living_members(family: Family, table: Iterable[ProcessStat] | None = None) -> tuple[ProcessStat, ...]:
    """The engine's living processes, leader first; zombies are dead. `table` is the process table, read when absent."""
    others = {os.getpid(), family.reaper}
    stats = [stat for stat in (all_stats() if table is None else table) if stat.pid not in others]
    known = {family.leader, *family.recorded}
    ours = {stat.pid for stat in stats if stat.id in known}
    ours |= {stat.pid for stat in stats if stat.pid not in ours and _carries(stat.pid, family.launch)}
    if family.reaper:
        ours |= {s.pid for s in stats if s.ppid == family.reaper and s.id not in family.bystanders}
    if _session_is_ours(family.leader, stats, ours):
        ours |= {stat.pid for stat in stats if family.leader.pid in (stat.sid, stat.pgid)}
    ours = _with_descendants(ours, stats)
    members = [stat for stat in stats if stat.pid in ours and stat.is_alive]
    return tuple(sorted(members, key=lambda stat: (stat.pid != family.leader.pid, stat.pid)))


def find_marked(launch: str) -> ProcessId | None:
    """The leader of a launch whose pid file was never written: it carries the mark and leads its session."""
    for stat in all_stats():
        if stat.is_alive and stat.pid == stat.sid and _carries(stat.pid, launch):
            return stat.id
    return None


def _carries(pid: int, launch: str) -> bool:
    """Whether a process of this user was started with the launch. Anybody may set a variable: only ours counts."""
    return bool(launch) and environment_holds(pid, f"{LAUNCH_VARIABLE}={launch}") and owner_of(pid) == os.geteuid()


def _session_is_ours(founder: ProcessId, stats: Collection[ProcessStat], ours: Collection[int]) -> bool:
    leader = next((stat for stat in stats if stat.pid == founder.pid), None)
    if leader is not None:
        return leader.ticks == founder.ticks and leader.sid == leader.pid
    return any(stat.pid in ours for stat in stats if founder.pid in (stat.sid, stat.pgid))


def _with_descendants(ours: set[int], stats: Collection[ProcessStat]) -> set[int]:
    found = set(ours)
    grown = True
    while grown:
        children = {stat.pid for stat in stats if stat.ppid in found} - found
        grown = bool(children)
        found |= children
    return found
