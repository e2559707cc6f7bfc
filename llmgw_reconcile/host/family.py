"""Find every living process of one engine, and only those that are proven to be its.

The proof (there is no other): the session is ours while its leader lives with the recorded start ticks. When the
leader is gone and nobody has its pid, the kernel keeps the number reserved while the session has members; they are
ours when one of them was recorded, or carries the launch in its environment. When the pid belongs to a later process,
the session is a stranger's. Descendants of a proven member are ours wherever they moved, and so are recorded members
that still live with their ticks. Engines rename their children and erase their environment: names prove nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import NamedTuple

from llmgw_reconcile.host.proc import ProcessStat, all_stats, environment_holds, owner_of
from llmgw_reconcile.model.observed import ProcessId

LAUNCH_VARIABLE = "LLMGW_LAUNCH"


class Family(NamedTuple):
    """What is recorded of an engine's processes: the leader founded session and group with its own pid."""

    leader: ProcessId
    recorded: frozenset[ProcessId] = frozenset()  # members seen when they were surely ours
    launch: str = ""
    reaper: int = 0  # the live supervisor: strays that lost their parent become its children
    bystanders: frozenset[int] = frozenset()  # children of the supervisor that are no part of the engine


def living_members(family: Family, table: Iterable[ProcessStat] | None = None) -> tuple[ProcessStat, ...]:
    """The engine's living processes, leader first; zombies are dead. `table` is the process table, read when absent."""
    stats = tuple(all_stats() if table is None else table)
    known = {family.leader, *family.recorded}
    ours = {stat.pid for stat in stats if stat.id in known}
    if _session_is_ours(family, stats, ours):
        ours |= {stat.pid for stat in stats if family.leader.pid in (stat.sid, stat.pgid)}
    if family.reaper:
        ours |= {s.pid for s in stats if s.ppid == family.reaper and s.pid not in family.bystanders}
    ours = _with_descendants(ours, stats)
    ours.discard(family.reaper)
    members = [stat for stat in stats if stat.pid in ours and stat.is_alive and owner_of(stat.pid) == os.geteuid()]
    return tuple(sorted(members, key=lambda stat: (stat.pid != family.leader.pid, stat.pid)))


def _session_is_ours(family: Family, stats: Collection[ProcessStat], ours: Collection[int]) -> bool:
    leader = next((stat for stat in stats if stat.pid == family.leader.pid), None)
    if leader is not None:
        return leader.ticks == family.leader.ticks
    session = [stat for stat in stats if family.leader.pid in (stat.sid, stat.pgid)]
    mark = f"{LAUNCH_VARIABLE}={family.launch}"
    return any(s.pid in ours or (family.launch and environment_holds(s.pid, mark)) for s in session)


def _with_descendants(ours: set[int], stats: Collection[ProcessStat]) -> set[int]:
    found = set(ours)
    grown = True
    while grown:
        children = {stat.pid for stat in stats if stat.ppid in found and stat.ppid > 1} - found
        grown = bool(children)
        found |= children
    return found


def find_marked(launch: str) -> ProcessId | None:
    """The leader of a launch whose pid file was never written: it carries the mark and leads its session."""
    mark = f"{LAUNCH_VARIABLE}={launch}"
    for stat in all_stats():
        if (
            stat.is_alive
            and stat.pid == stat.sid
            and owner_of(stat.pid) == os.geteuid()
            and environment_holds(stat.pid, mark)
        ):
            return stat.id
    return None
