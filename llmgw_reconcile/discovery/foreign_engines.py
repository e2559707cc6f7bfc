"""Find the inference engines that run and are none of ours: by program, and only where this user may see them whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from llmgw_reconcile.discovery.holders import describe_process
from llmgw_reconcile.host.proc import ProcessStat, all_stats, command_line, descendants_of

ENVIRONMENT_LIMIT = 4 << 20  # bytes; arguments and environment together have 2 MiB on Linux's defaults


class ForeignEngine(NamedTuple):
    """The leader of an engine that we did not start."""

    pid: int
    user: str | None
    argv: tuple[str, ...]  # as /proc shows it
    folder: str  # its working directory
    environ: Mapping[str, str]  # as it was started: secrets included, never to be shown
    family: frozenset[int]  # pids of the leader and its descendants


def find_foreign_engines(
    is_engine: Callable[[Sequence[str]], bool], engine_of: Callable[[int], str | None]
) -> tuple[ForeignEngine, ...]:
    """The engines, by pid. `is_engine` knows one by its command line; `engine_of` tells which pids are ours.

    A child that still shows its leader's command line, until it renames itself, is no engine of its
    own. A process whose environment may not be read is left out: half of an engine is worse than none.
    """
    stats = {stat.pid: stat for stat in all_stats() if stat.is_alive}
    lines = {pid: command_line(pid) for pid in stats}
    engines = {pid for pid, line in lines.items() if line and is_engine(line)}
    leaders = sorted(pid for pid in engines if not _has_ancestor(pid, engines, stats) and engine_of(pid) is None)
    return tuple(found for pid in leaders if (found := _look_at(pid, lines[pid])) is not None)


def _has_ancestor(pid: int, among: set[int], stats: Mapping[int, ProcessStat]) -> bool:
    seen = {pid}
    while (stat := stats.get(pid)) is not None and (pid := stat.ppid) not in seen:
        if pid in among:
            return True
        seen.add(pid)
    return False


def _look_at(pid: int, argv: tuple[str, ...]) -> ForeignEngine | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read(ENVIRONMENT_LIMIT).decode("utf-8", "replace").split("\0")
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:  # another user's, or gone
        return None
    environ = {name: value for name, equals, value in (entry.partition("=") for entry in entries) if equals}
    family = frozenset((pid, *(process.pid for process in descendants_of(pid))))
    return ForeignEngine(pid, describe_process(pid)[0], argv, folder, environ, family)
