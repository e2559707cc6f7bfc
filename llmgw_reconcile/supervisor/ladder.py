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
from llmgw_reconcile.model.observed import ProcessId

POLL_SECONDS = 0.02
KILL_WAIT_SECONDS = 10.0

FindMembers = Callable[[], tuple[ProcessStat, ...]]
Send = Callable[[ProcessId, int], bool]


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
    between: Callable[[], None] = lambda: None,
    kill_wait: float = KILL_WAIT_SECONDS,
    send: Send = send_signal,
) -> StopResult:
    """Climb the ladder. `find_members` gives the living, proven members; `between` is called while waiting.

    Every signal is preceded by a fresh proof. Ends within `grace` + `kill_wait` seconds and a little.
    """
    members = find_members()
    if not members:
        return StopResult(StopOutcome.ALREADY_GONE)
    if any(member.id == leader for member in members):
        _signal_all((leader,), (signal.SIGTERM, signal.SIGCONT), send)
        if not _wait_until_gone(find_members, grace, clock, between, leader=leader):
            return StopResult(StopOutcome.TERMINATED)
    return _kill(find_members, kill_wait, clock, between, send)


def kill_family(
    find_members: FindMembers, *, patience: float, clock: Clock, between: Callable[[], None] = lambda: None
) -> StopResult:
    """End what outlived its leader: a moment to go by itself, then SIGKILL."""
    if not _wait_until_gone(find_members, patience, clock, between):
        return StopResult(StopOutcome.ALREADY_GONE)
    return _kill(find_members, KILL_WAIT_SECONDS, clock, between, send_signal)


def _kill(
    find_members: FindMembers, patience: float, clock: Clock, between: Callable[[], None], send: Send
) -> StopResult:
    deadline = clock.monotonic() + patience
    while members := find_members():
        # Members may fork while they are killed: each round kills all it sees, until a round sees none.
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
        clock.sleep(pause)
        pause = min(pause * 1.5, 0.5)


ORPHAN_PATIENCE_SECONDS = 4.0  # vLLM's workers end 1.5-3.8 s after their leader


def _signal_all(processes: tuple[ProcessId, ...], numbers: tuple[int, ...], send: Send) -> None:
    for process in processes:
        for number in numbers:
            try:
                send(process, number)
            except PermissionError:
                break  # it shows as a survivor
