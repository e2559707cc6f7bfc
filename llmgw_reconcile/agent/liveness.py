"""Find engines that are dead though their processes live, where the state asks for it (`liveness: {failures: N}`).

An engine that answers its probes badly is dead only when it does nothing either: one that has requests in hand or uses
the processor is busy, and a busy engine is never replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from llmgw_reconcile.discovery.engines import bearer_of, observe_engine, with_probes
from llmgw_reconcile.discovery.records import read_records
from llmgw_reconcile.discovery.requests import MetricsQuestion, count_requests
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.host.cpu_time import cpu_seconds
from llmgw_reconcile.host.proc import boot_id, descendants_of
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DEFAULT_HOST
from llmgw_reconcile.model.launch import ReadyWhen
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase, ProcessId

PROBE_SECONDS = 10.0  # between two rounds
BUSY_SHARE = 0.05  # of one processor; what idle servers use for their timers is far below


class Health(StrEnum):
    """What one round says."""

    SERVING = "serving"
    BUSY = "busy"  # it answers badly and is at work, or nothing is known of its work yet
    SILENT = "silent"  # it answers badly and does nothing


def health_of(*, answers: bool, in_hand: int | None, share: float | None) -> Health:
    """`in_hand`: requests by its metrics; `share`: of one processor, used since the last round; None: not known."""
    if answers:
        return Health.SERVING
    return Health.BUSY if in_hand or share is None or share >= BUSY_SHARE else Health.SILENT


class Sign(NamedTuple):
    """What a round found for one engine."""

    engine: str
    leader: ProcessId
    health: Health
    misses: int  # in a row, this one included
    is_dead: bool  # as many as the state allows
    detail: str


class _Vitals(NamedTuple):
    """An engine at its last round."""

    leader: ProcessId
    cpu: float  # seconds that its processes have used
    at: float  # monotonic
    misses: int


class Liveness:
    """Rounds of probes; `look` when `look_at` has come."""

    def __init__(self, state_dir: StateDir, environ: Mapping[str, str], clock: Clock) -> None:
        self._state_dir, self._environ, self._clock = state_dir, environ, clock
        self._allowed: Mapping[str, int] = {}
        self._vitals: dict[str, _Vitals] = {}
        self.look_at = float("inf")

    def watch(self, allowed: Mapping[str, int]) -> None:
        """Engine -> misses in a row after which it is dead; the others are not asked at all."""
        self._allowed = {engine: misses for engine, misses in allowed.items() if misses > 0}
        self._vitals = {engine: vitals for engine, vitals in self._vitals.items() if engine in self._allowed}
        if not self._allowed:
            self.look_at = float("inf")
        elif self.look_at == float("inf"):
            self.look_at = self._clock.monotonic() + PROBE_SECONDS

    def look(self) -> tuple[Sign, ...]:
        """One round. It takes as long as the slowest answer, up to the time-out of its probe."""
        engines = tuple(filter(None, map(self._observe, self._allowed)))
        probed = with_probes(ObservedState(engines), self._environ).engines
        before, self._vitals = self._vitals, {}
        signs = tuple(self._judge(engine, before.get(engine.engine)) for engine in probed)
        self.look_at = self._clock.monotonic() + PROBE_SECONDS
        return signs

    def _observe(self, engine: str) -> ObservedEngine | None:
        """An engine that has served and should go on; None for one that starts, stops, or serves nothing here."""
        try:
            seen = observe_engine(read_records(engine, self._state_dir.engine(engine)), boot_id())
        except NodeError:
            return None
        serves = (seen.launch or {}).get("readiness", ReadyWhen.SERVES) == ReadyWhen.SERVES
        if not serves or seen.live is None or seen.phase not in (Phase.READY, Phase.DEGRADED):
            return None
        return seen._replace(phase=Phase.READY)

    def _judge(self, seen: ObservedEngine, before: _Vitals | None) -> Sign:
        assert seen.live is not None
        now = self._clock.monotonic()
        cpu = cpu_seconds((seen.live.pid, *(process.pid for process in descendants_of(seen.live.pid))))
        if before is None or before.leader != seen.live:
            before = _Vitals(seen.live, cpu, now, misses=0)
        elapsed = now - before.at
        answers = seen.phase is Phase.READY
        health = health_of(
            answers=answers,
            in_hand=None if answers else self._in_hand(seen),
            share=abs(cpu - before.cpu) / elapsed if elapsed > 0 else None,  # less than before: a process ended
        )
        misses = before.misses + 1 if health is Health.SILENT else 0
        self._vitals[seen.engine] = _Vitals(seen.live, cpu, now, misses)
        is_dead = misses >= self._allowed[seen.engine]
        return Sign(seen.engine, seen.live, health, misses, is_dead=is_dead, detail=seen.detail)

    def _in_hand(self, seen: ObservedEngine) -> int | None:
        bearer = bearer_of(seen.launch or {}, self._environ)
        return count_requests(MetricsQuestion(seen.host or DEFAULT_HOST, seen.port or 0, bearer))
