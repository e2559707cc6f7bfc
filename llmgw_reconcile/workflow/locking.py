"""Take the locks of one piece of work: the node's while it plans and acts, the engines' as long as it works on them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from llmgw_reconcile.host.lock import Lock, take_lock
from llmgw_reconcile.host.state_dir import StateDir


class Locks:
    """The locks of one command; all are let go at the end of the `with`. Raises BusyError naming the holder."""

    def __init__(self, state_dir: StateDir, purpose: str, wait: float = 0.0) -> None:
        self._state_dir, self._purpose = state_dir, purpose
        self._deadline = time.monotonic() + wait
        self._node: Lock | None = None
        self._engines: dict[str, Lock] = {}

    def take_node(self) -> None:
        """From now on nobody else plans and acts on this node."""
        self._node = self._take(self._state_dir.node_lock)

    def take_engines(self, engines: Iterable[str]) -> None:
        """From now on nobody else works on these engines, or waits for them."""
        for engine in engines:
            self._engines[engine] = self._take(self._state_dir.engine_lock(engine))

    def release_node(self) -> None:
        """Others may plan and act again; the engines stay ours."""
        if self._node is not None:
            self._node.release()
            self._node = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release_node()
        for lock in self._engines.values():
            lock.release()

    def _take(self, path: str) -> Lock:
        return take_lock(path, purpose=self._purpose, wait=max(0.0, self._deadline - time.monotonic()))
