"""Stop an engine while others go on: the stop runs in a thread of its own, since its grace may be minutes."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.draining import unmark_draining
from llmgw_reconcile.supervise.drain import AT_ONCE, Drain, drain_engine
from llmgw_reconcile.supervise.operations import Operations
from llmgw_reconcile.supervisor.ladder import StopOutcome, StopResult


class Stopping:
    """A stop under way. Once the engine was asked to stop, a process that does not wait for it may end.

    The engine's supervisor sees to the rest then.
    """

    def __init__(
        self, operations: Operations, engine: str, *, for_good: bool, drain: Drain = AT_ONCE, hold: bool = False
    ) -> None:
        """Begin. `drain`: how it is let finish its requests first; `hold`: note that a person wants it stopped.

        `for_good`: nothing is started in its place that would ask for the GPU memory by itself.
        """
        self._operations, self._engine, self._for_good = operations, engine, for_good
        self._drain, self._hold = drain, hold
        self.was_asked = False  # whether the engine was asked to stop; until then it serves
        self._result: StopResult | None = None
        self._memory = ""  # what is wrong with the memory that it held
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name=f"stop {engine}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether `prove` answers at once."""
        return not self._thread.is_alive()

    def prove(self) -> StopOutcome:
        """How far the ladder had to go, when the stop is over. Raises NodeError when it cannot be proven."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        if not self._result.is_stopped:
            pids = ", ".join(str(process.pid) for process in self._result.survivors)
            raise NodeError(f"unkillable: {pids} live on after SIGKILL; the GPUs they hold stay taken")
        if self._memory:
            raise NodeError(f"{self._result.outcome}, but {self._memory}")
        return self._result.outcome

    def _run(self) -> None:
        try:
            self._stop()
        except BaseException as error:  # noqa: BLE001 - raised again by `prove`, in the thread that asked
            self._error = error
        finally:
            unmark_draining(self._operations.state_dir.engine(self._engine))

    def _stop(self) -> None:
        operations = self._operations
        if not drain_engine(self._engine, self._drain, operations.state_dir, operations.environ, operations.clock):
            raise NodeError("not stopped: it had requests in hand when the wait for them was broken off")
        if self._hold:
            with suppress(NodeError):  # a full disk must not keep an engine from being stopped
                operations.hold(self._engine)
        self.was_asked = True
        self._result = operations.stop(self._engine)
        if self._for_good and self._result.is_stopped:
            self._memory = self._look_at_memory()

    def _look_at_memory(self) -> str:
        try:
            left = self._operations.await_memory(self._engine)
        except NodeError as error:
            return f"its GPU memory cannot be asked for: {error}"
        return f"its GPU memory is not released: {'; '.join(left)}" if left else ""
