"""The life of one engine under its supervisor: start, wait until it serves, watch, restart after a crash, stop.

One thread, one sleep. Once the engine is ready nothing wakes it but a signal, the engine's end or a log that grows, so
that a node at rest stays at rest. An engine that was never ready is not started again by itself.
"""

from __future__ import annotations

from llmgw_reconcile.discovery.gpu_memory import what_holds
from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.host.files import read_json
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.supervisor.epitaph import TAIL_BYTES, epitaph
from llmgw_reconcile.supervisor.ladder import StopResult, kill_family, stop_family
from llmgw_reconcile.supervisor.orders import Budgets, Orders
from llmgw_reconcile.supervisor.records import Records
from llmgw_reconcile.supervisor.run import Run
from llmgw_reconcile.supervisor.spawn import Exit
from llmgw_reconcile.supervisor.vigil import Vigil
from llmgw_reconcile.supervisor.wake import NEVER, Wake

RESTART_DELAYS = (0.0, 10.0, 30.0, 60.0, 120.0, 300.0)
MEMORY_BUDGET_SECONDS = 120.0  # a first start waits so long for its GPUs; a restart waits on
MEMORY_PAUSES = (0.5, 5.0)
FAREWELL_SECONDS = 0.5  # workers write their last lines after their leader is gone


class Life:
    """Runs one engine until it is stopped or has failed for good; `records` say which."""

    def __init__(self, orders: Orders, records: Records, wake: Wake) -> None:
        self._orders, self._records, self._wake = orders, records, wake
        self._budgets = orders.budgets
        adoption = orders.adoption
        self._was_ready = adoption is not None and adoption.was_ready
        self._restarts = 0 if adoption is None else adoption.restarts
        self._phase = Phase.STARTING
        self._ready_at: str | None = None

    def live(self) -> None:
        """Returns when nothing of the engine lives any more, or when it is unkillable; the last phase is published."""
        run = self._first_run()
        while run is not None:
            ended = self._watch(run)
            if ended is None:
                self._stop(run)
                return
            run = self._after(run, *ended)

    # -- to a run

    def _first_run(self) -> Run | None:
        adoption = self._orders.adoption
        if adoption is None:
            return self._begin(first=True)
        try:
            run = Run.adopt(self._orders, adoption)
        except OSError as error:
            self._fail(Exit(), f"cannot adopt process {adoption.leader.pid}: {error.strerror or error}")
            return None
        self._records.publish_pid(run.process.id, run.members, was_ready=self._was_ready)
        return run

    def _begin(self, *, first: bool) -> Run | None:
        if not self._wait_for_memory(first=first):
            return None
        try:
            run = Run.start(self._orders)
        except OSError as error:
            self._fail(Exit(), f"cannot start {self._orders.argv[0]}: {error.strerror or error}")
            return None
        self._records.publish_pid(run.process.id, run.members)
        self._publish(Phase.STARTING)
        return run

    def _wait_for_memory(self, *, first: bool) -> bool:
        """Until the engine's GPUs are free; False when it must not start (published)."""
        deadline = self._wake.clock.monotonic() + MEMORY_BUDGET_SECONDS
        pause, longest = MEMORY_PAUSES
        while holders := what_holds(self._orders.gpus, self._orders.held_above_mb):
            words = "; ".join(holders)
            self._publish(Phase.STARTING if first else Phase.BACKOFF, f"waits for GPU memory: {words}")
            if first and self._wake.clock.monotonic() >= deadline:
                self._fail(Exit(), f"memory not released: {words}")
                return False
            if self._wake.sleep(pause):
                break
            pause = min(pause * 1.5, longest)
        if self._wake.stop_asked:
            self._publish(Phase.STOPPED, "stopped before it was started")
        return not self._wake.stop_asked

    # -- during a run

    def _watch(self, run: Run) -> tuple[Exit, str] | None:
        """Until the engine ends, with our reason when it was we who gave it up; None when a stop is asked for."""
        vigil = Vigil(run, self._orders.target, self._publish, self._wake.clock.monotonic())
        log_at, calm_at = 0.0, NEVER
        try:
            while not self._wake.stop_asked:
                if (ended := run.poll()) is not None:
                    return ended, ""
                now = self._wake.clock.monotonic()
                deadline = NEVER if vigil.is_ready else vigil.step(self._budgets, now)
                if vigil.gave_up:
                    return self._give_up(run, vigil.gave_up)
                if vigil.is_ready and self._phase is not Phase.READY:
                    self._ready(run)
                    calm_at = now + self._budgets.reset_after if self._restarts else NEVER
                if now >= calm_at:
                    self._restarts, calm_at = 0, NEVER
                    self._publish(Phase.READY)
                if now >= log_at or self._wake.log_written:
                    self._wake.log_written = False
                    log_at = run.bound_log(now)
                self._wake.wait(min(deadline, log_at, calm_at), (run.process.pidfd,), vigil.round)
                self._take_new_budgets()
        finally:
            vigil.close()
        return None

    def _ready(self, run: Run) -> None:
        self._was_ready = True
        run.members = tuple(stat.id for stat in run.find_members())
        self._records.publish_pid(run.process.id, run.members, was_ready=True)
        self._publish(Phase.READY)

    def _give_up(self, run: Run, reason: str) -> tuple[Exit, str]:
        self._publish(Phase.STOPPING, reason)
        self._climb(run, self._orders.loading_grace)
        return run.poll() or Exit(), reason

    # -- after a run

    def _after(self, run: Run, ended: Exit, reason: str) -> Run | None:
        """Clear what is left, record the end, and begin again when that is due."""
        left = kill_family(run.find_members, patience=FAREWELL_SECONDS, clock=self._wake.clock, between=run.tend)
        tail = run.log.tail(TAIL_BYTES)
        run.close()
        if not left.is_stopped:
            self._fail(ended, _unkillable(left), tail, keep_pid=True)
            return None
        if reason or not self._was_ready or self._budgets.restart_policy != "always":
            self._fail(ended, reason, tail)
            return None
        if self._restarts >= self._budgets.max_restarts:
            self._fail(ended, reason, tail)
            return None
        self._record(ended, reason, tail)
        delay = RESTART_DELAYS[min(self._restarts, len(RESTART_DELAYS) - 1)]
        self._restarts += 1
        self._publish(Phase.BACKOFF, f"{ended}; starts again" + (f" in {delay:g} s" if delay else ""))
        self._records.forget_pid()
        if self._wake.sleep(delay):
            self._publish(Phase.STOPPED, "stopped while it waited to start again")
            return None
        return self._begin(first=False)

    def _stop(self, run: Run) -> None:
        loading = self._phase is not Phase.READY
        self._publish(Phase.STOPPING)
        grace = self._budgets.stop_grace
        result = self._climb(run, min(grace, self._orders.loading_grace) if loading else grace)
        run.close()
        if result.is_stopped:
            self._records.forget_pid()
            self._publish(Phase.STOPPED, str(result.outcome))
        else:
            self._publish(Phase.FAILED, _unkillable(result))

    def _climb(self, run: Run, grace: float) -> StopResult:
        return stop_family(run.find_members, run.process.id, grace=grace, clock=self._wake.clock, between=run.tend)

    # -- records

    def _fail(self, ended: Exit, reason: str, tail: bytes = b"", *, keep_pid: bool = False) -> None:
        cause = self._record(ended, reason, tail)
        if not keep_pid:
            self._records.forget_pid()
        self._publish(Phase.FAILED, cause)

    def _record(self, ended: Exit, reason: str, tail: bytes) -> str:
        entry = epitaph(self._orders, ended, reason, tail, was_ready=self._was_ready)
        self._records.record_exit(entry)
        return str(entry["cause"]) or str(ended)

    def _publish(self, phase: Phase, detail: str = "") -> None:
        if phase is Phase.READY:
            self._ready_at = self._ready_at or utc_now()
        else:
            self._ready_at = None
        self._phase = phase
        self._records.publish_phase(phase, detail=detail, restarts=self._restarts, ready_at=self._ready_at)

    def _take_new_budgets(self) -> None:
        if not self._wake.budgets_changed:
            return
        self._wake.budgets_changed = False
        try:
            spec = read_json(EngineDir(self._orders.folder).file("spec.json")) or {}
            self._budgets = Budgets.from_bookkeeping(spec["bookkeeping"])
        except (ValueError, KeyError, TypeError):
            return  # the old ones stay


def _unkillable(result: StopResult) -> str:
    pids = ", ".join(str(process.pid) for process in result.survivors)
    return f"unkillable: {pids} live on after SIGKILL"
