"""Stop an engine and prove it: ask its leader, wait, end whatever is left of its family, and say what would not go.

SIGTERM goes to the leader alone: to the whole group it spoils the engine's drain (vLLM 0.32 answers requests in flight
with 500 when its workers get the signal too). SIGCONT follows, so that a suspended process can act on it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.host.proc import ProcessStat, send_signal
from llmgw_reconcile.model.process import ProcessId

POLL_SECONDS = 0.02  # between two looks, at first
LONGEST_POLL_SECONDS = 0.5
ORPHAN_PATIENCE_SECONDS = 4.0  # vLLM's workers end 1.5-3.8 s after their leader
KILL_WAIT_SECONDS = 10.0

FindMembers = Callable[[], tuple[ProcessStat, ...]]
Send = Callable[[ProcessId, int], bool]


def _nothing() -> None:
    """What is done between two looks where nothing needs to be."""


class StopOutcome(StrEnum):
    """How far the ladder had to go."""

    ALREADY_GONE = "already gone"
    TERMINATED = "stopped on SIGTERM"
    KILLED = "stopped on SIGKILL"
    UNKILLABLE = "unkillable"  # alive after SIGKILL: in the kernel, or another user's


class StopResult(NamedTuple):
    """The outcome, and who is left."""

    outcome: StopOutcome
    survivors: tuple[ProcessId, ...] = ()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing of the engine lives."""
        return self.outcome is not StopOutcome.UNKILLABLE


def stop_family(
    find_members: FindMembers,
    leader: ProcessId,
    *,
    grace: float,
    clock: Clock,
    between: Callable[[], None] = _nothing,
    kill_group: Callable[[], None] = _nothing,
    send: Send = send_signal,
) -> StopResult:
    """Climb the ladder. `find_members` gives the living, proven members; `between` is called while waiting.

    Every signal is preceded by a fresh proof. Ends within `grace` + KILL_WAIT_SECONDS and a little. `kill_group`: see
    `kill_family`.
    """
    members = find_members()
    if not members:
        return StopResult(StopOutcome.ALREADY_GONE)
    if any(member.id == leader for member in members):
        _signal_all((leader,), (signal.SIGTERM, signal.SIGCONT), send)
        if not _wait_until_gone(find_members, grace, clock, between, leader=leader):
            return StopResult(StopOutcome.TERMINATED)
    return kill_family(find_members, clock=clock, between=between, kill_group=kill_group, send=send)


def kill_family(
    find_members: FindMembers,
    *,
    patience: float = 0.0,
    clock: Clock,
    between: Callable[[], None] = _nothing,
    kill_group: Callable[[], None] = _nothing,
    send: Send = send_signal,
) -> StopResult:
    """End what outlived its leader: a moment to go by itself, then SIGKILL.

    Members may fork while they are killed: each round kills all that it sees, until a round sees none. One that forks
    and ends faster than it can be looked at is caught by `kill_group`, which kills a whole proven group at once.
    """
    if not _wait_until_gone(find_members, patience, clock, between):
        return StopResult(StopOutcome.ALREADY_GONE)
    deadline = clock.monotonic() + KILL_WAIT_SECONDS
    while members := find_members():
        kill_group()
        _signal_all(tuple(member.id for member in members), (signal.SIGKILL,), send)
        if clock.monotonic() >= deadline:
            return StopResult(StopOutcome.UNKILLABLE, tuple(member.id for member in members))
        clock.sleep(POLL_SECONDS)
        between()
    return StopResult(StopOutcome.KILLED)


def _wait_until_gone(
    find_members: FindMembers,
    patience: float,
    clock: Clock,
    between: Callable[[], None],
    leader: ProcessId | None = None,
) -> tuple[ProcessStat, ...]:
    """Those that still live at the end of the patience.

    Once the leader is gone its workers get no more than a few seconds: nobody is left for them to work for.
    """
    deadline = clock.monotonic() + patience
    pause = POLL_SECONDS
    while True:
        between()
        members = find_members()
        if not members or clock.monotonic() >= deadline:
            return members
        if leader is not None and all(member.id != leader for member in members):
            deadline, leader = min(deadline, clock.monotonic() + ORPHAN_PATIENCE_SECONDS), None
        clock.sleep(min(pause, max(0.0, deadline - clock.monotonic())))
        pause = min(pause * 1.5, LONGEST_POLL_SECONDS)


def _signal_all(processes: tuple[ProcessId, ...], numbers: tuple[int, ...], send: Send) -> None:
    for process in processes:
        for number in numbers:
            try:
                send(process, number)
            except OSError:  # not permitted, most likely: it shows as a survivor
                break
