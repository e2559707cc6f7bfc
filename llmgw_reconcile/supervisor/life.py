"""The life of one engine under its supervisor: start, wait until it serves, watch, restart after a crash, stop.

One thread, one sleep. Once the engine is ready nothing wakes it but a signal, the engine's end or a log that grows, so
that a node at rest stays at rest. An engine that was never ready is not started again by itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.host.files import read_json
from llmgw_reconcile.host.libc import release_code
from llmgw_reconcile.host.proc import owner_of
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.process import Phase
from llmgw_reconcile.supervisor.epitaph import TAIL_BYTES, End, epitaph
from llmgw_reconcile.supervisor.ladder import StopResult, kill_family, stop_family
from llmgw_reconcile.supervisor.needs import wait_for_needs, what_lacks
from llmgw_reconcile.supervisor.orders import Adoption, Budgets, Orders
from llmgw_reconcile.supervisor.records import Records
from llmgw_reconcile.supervisor.restarts import delay_before_restart
from llmgw_reconcile.supervisor.run import Run
from llmgw_reconcile.supervisor.spawn import Exit
from llmgw_reconcile.supervisor.vigil import Vigil
from llmgw_reconcile.supervisor.wake import NEVER, Wake

NEEDS_BUDGET_SECONDS = 120.0  # a first start waits so long for its GPUs and its port; a restart waits on
FAREWELL_SECONDS = 0.5  # workers write their last lines after their leader is gone


class Life:
    """Runs one engine until it is stopped or has failed for good; `records` say which."""

    def __init__(self, orders: Orders, records: Records, wake: Wake) -> None:
        self._orders, self._records, self._wake = orders, records, wake
        self._last_budgets = orders.budgets
        self._restarts = orders.adoption.restarts if orders.adoption else 0  # since the engine last was calm
        self._was_ever_ready = orders.adoption is not None and orders.adoption.was_ready
        self._ready_at: str | None = None
        self._spawned_at: float | None = None  # monotonic; None for a run that was adopted
        self._load_seconds: float | None = None

    def live(self) -> None:
        """Returns when nothing of the engine lives any more, or when it is unkillable; the last phase is published."""
        adoption = self._orders.adoption
        run = self._adopt(adoption) if adoption else self._start()
        while run is not None:
            end = self._watch(run)
            if end is None:
                self._stop(run)
                return
            run = self._after(run, end)

    # -- to a run

    def _adopt(self, adoption: Adoption) -> Run | None:
        try:
            run = Run.adopt(self._orders, adoption)
        except OSError as error:
            # The pid file stays: processes that it names may live, and the next plan must find them.
            self._fail(End(reason=f"cannot adopt process {adoption.leader.pid}: {error.strerror or error}"))
            return None
        self._publish_pid(run)
        return run

    def _start(self) -> Run | None:
        """The first run."""
        lacks = wait_for_needs(self._orders, self._wake, self._waits(Phase.STARTING), NEEDS_BUDGET_SECONDS)
        if self._wake.stop_asked:
            self._publish(Phase.STOPPED, "stopped before it was started")
            return None
        if lacks:
            self._fail(End(reason=lacks))
            return None
        return self._spawn()

    def _start_again(self, end: End, delay: float) -> Run | None:
        """The run after a crash, at once where nothing has to be waited for."""
        self._restarts += 1
        if not delay and not self._orders.gpus and not what_lacks(self._orders, self._wake):
            return self._spawn(after=end)
        self._record(end)
        self._records.forget_pid()
        self._publish(Phase.BACKOFF, f"{end.exit}; starts again" + (f" in {delay:g} s" if delay else ""))
        self._wake.pause(delay)
        wait_for_needs(self._orders, self._wake, self._waits(Phase.BACKOFF))
        if self._wake.stop_asked:
            self._publish(Phase.STOPPED, "stopped while it waited to start again")
            return None
        return self._spawn()

    def _spawn(self, after: End | None = None) -> Run | None:
        """Begin a run. A crash is recorded once the engine runs again: that takes longer than a start."""
        self._records.forget_pid()  # the pid file of an earlier run would hide this one, should we be killed in between
        try:
            run = Run.start(self._orders)
        except OSError as error:
            if after is not None:
                self._record(after)
            self._fail(End(reason=f"cannot start {self._orders.argv[0]}: {error.strerror or error}"))
            return None
        self._spawned_at, self._load_seconds = self._wake.monotonic(), None
        self._publish_pid(run)
        self._publish(Phase.STARTING)
        if after is not None:
            self._record(after)
        return run

    # -- during a run

    def _watch(self, run: Run) -> End | None:
        """Until the engine ends, by itself or because we give it up; None when a stop is asked for."""
        wake = self._wake
        vigil = Vigil(run, self._orders.target, self._publish, lambda: self._publish_pid(run), wake.monotonic())
        try:
            while not wake.stop_asked:
                if (ended := run.poll()) is not None:
                    return End(ended, was_ready=run.was_ready)
                now = wake.monotonic()
                vigil_at = vigil.step(self._budgets(), now)
                if vigil.gave_up:
                    return self._give_up(run, vigil.gave_up)
                if vigil.is_ready and run.ready_since is None:
                    self._note_ready(run, now)
                log_at = run.bound_log(now, written=wake.saw(signal.SIGIO))
                deadline = min(vigil_at, log_at, self._calm_at(run, now), self._records.settle(now))
                wake.wait(deadline, (run.process.pidfd,), vigil.round)
        finally:
            vigil.close()
        return None

    def _note_ready(self, run: Run, now: float) -> None:
        run.was_ready = self._was_ever_ready = True
        run.ready_since = now
        self._load_seconds = None if self._spawned_at is None else round(now - self._spawned_at, 3)
        self._publish_pid(run)
        self._publish(Phase.READY)
        release_code()

    def _calm_at(self, run: Run, now: float) -> float:
        """When the engine will have served long enough for its crashes to be forgotten; forgets them when it has."""
        if not self._restarts or run.ready_since is None:
            return NEVER
        calm_at = run.ready_since + self._budgets().reset_after
        if now < calm_at:
            return calm_at
        self._restarts = 0
        self._publish(Phase.READY)
        return NEVER

    def _give_up(self, run: Run, reason: str) -> End:
        self._publish(Phase.STOPPING, reason)
        self._climb(run, self._orders.loading_grace)
        return End(run.poll() or Exit(), reason)

    def _budgets(self) -> Budgets:
        """Those in force: what spec.json says since the last SIGHUP."""
        if self._wake.saw(signal.SIGHUP):
            try:
                spec = read_json(EngineDir(self._orders.folder).file("spec.json")) or {}
                self._last_budgets = Budgets.from_bookkeeping(spec["bookkeeping"])
            except (ValueError, KeyError, TypeError):
                pass  # the old ones stay
        return self._last_budgets

    # -- after a run

    def _after(self, run: Run, end: End) -> Run | None:
        """Clear what is left, record the end, and begin again when that is due."""
        left = kill_family(
            run.find_members,
            patience=FAREWELL_SECONDS,
            clock=self._wake,
            between=run.tend,
            kill_group=run.process.kill_group,
        )
        end = end._replace(tail=run.log.tail(TAIL_BYTES))
        run.close()
        if not left.is_stopped:
            self._fail(end._replace(reason=_unkillable(left)))
            return None
        if not end.reason and self._was_ever_ready:
            delay = delay_before_restart(self._restarts, self._budgets())
            if delay is not None:
                return self._start_again(end, delay)
        self._records.forget_pid()
        self._fail(end)
        return None

    def _stop(self, run: Run) -> None:
        self._publish(Phase.STOPPING)
        grace = self._budgets().stop_grace
        result = self._climb(run, grace if run.was_ready else min(grace, self._orders.loading_grace))
        run.close()
        if result.is_stopped:
            self._records.forget_pid()
            self._publish(Phase.STOPPED, str(result.outcome))
        else:
            self._publish(Phase.FAILED, _unkillable(result))

    def _climb(self, run: Run, grace: float) -> StopResult:
        return stop_family(
            run.find_members,
            run.process.id,
            grace=grace,
            clock=self._wake,
            between=run.tend,
            kill_group=run.process.kill_group,
        )

    # -- records

    def _fail(self, end: End) -> None:
        self._publish(Phase.FAILED, self._record(end))

    def _record(self, end: End) -> str:
        entry = epitaph(self._orders, end)
        self._records.record_exit(entry)
        return str(entry["cause"]) or str(end.exit)

    def _publish_pid(self, run: Run) -> None:
        self._records.publish_pid(run.process.id, run.members, was_ready=run.was_ready)

    def _publish(self, phase: Phase, detail: str = "") -> None:
        self._ready_at = (self._ready_at or utc_now()) if phase is Phase.READY else None
        self._records.publish_phase(
            phase,
            detail=detail,
            restarts=self._restarts,
            ready_at=self._ready_at,
            load_seconds=self._load_seconds,
        )

    def _waits(self, phase: Phase) -> Callable[[str], None]:
        return lambda words: self._publish(phase, f"waits: {words}")


def _unkillable(result: StopResult) -> str:
    """Names who would not go, and of whom another user is the owner."""
    owners = {process.pid: owner_of(process.pid) for process in result.survivors}
    names = [f"{pid} of uid {uid}" if uid not in (None, os.geteuid()) else str(pid) for pid, uid in owners.items()]
    return f"unkillable: {', '.join(names)} live on after SIGKILL"
