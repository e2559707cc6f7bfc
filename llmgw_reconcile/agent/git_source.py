"""Where the desired state comes from: a file of a git repository, at the commit that a branch or tag names."""

from __future__ import annotations

import os

from llmgw_reconcile.agent.git import Repository
from llmgw_reconcile.agent.source import SHORT_COMMIT
from llmgw_reconcile.errors import LlmgwError, NodeError, RefusedError
from llmgw_reconcile.host.clock import Clock
from llmgw_reconcile.workflow.applying import Wish
from llmgw_reconcile.workflow.reading import state_from

NEVER = float("inf")


class GitSource:
    """Fetches at an interval; between two fetches the commit that is known is the wanted one."""

    is_settling = False

    def __init__(
        self,
        repository: Repository,
        ref: str,
        path: str,
        *,
        interval: float,
        verify_signatures: bool,
        clock: Clock,
    ) -> None:
        """`path` is that of the state file within the repository."""
        self._repository, self._ref, self._path = repository, ref, os.path.normpath(path)
        self._interval, self._verifies, self._clock = interval, verify_signatures, clock
        self._fetch_at = -NEVER
        self._commit = ""  # that was fetched last
        self._trouble: NodeError | None = None  # why the last fetch brought none
        self._tree: str | None = None  # that is checked out
        self._rejected: tuple[str, RefusedError] | None = None  # a commit that cannot become good, and why
        self.look_at = NEVER  # each round looks by itself

    def has_changed(self) -> bool:
        """What is new is found by fetching."""
        return False

    def hurry(self) -> None:
        """Fetch in the next round."""
        self._fetch_at = -NEVER

    def read(self) -> Wish:
        """The state at the newest commit that is known. Raises RefusedError for a bad one, NodeError for no answer."""
        commit = self._newest()
        if self._rejected is not None and self._rejected[0] == commit:
            raise self._rejected[1]
        try:
            return self._load(commit)
        except (RefusedError, _UnsignedError) as error:
            reason = RefusedError(f"commit {commit[:SHORT_COMMIT]} of {self._ref} is refused: {error}")
            self._rejected = (commit, reason)
            self._return()
            raise reason from None

    def accept(self, wish: Wish) -> None:
        """The commit becomes the good one. Raises NodeError."""
        if self._tree is not None and self._tree != self._repository.good():
            self._repository.mark_good(self._tree)

    def refuse(self, wish: Wish) -> None:
        """Files beside the state are those of the good commit again. Raises NodeError."""
        self._return()

    def kept(self) -> Wish | None:
        """The state at the good commit."""
        try:
            good = self._repository.good()
            if good is None:
                return None
            self._check_out(good)
            return self._state()
        except LlmgwError:
            return None

    def version(self, wish: Wish) -> dict[str, str | None]:
        """What names a state in events: file, digest, commit."""
        return {
            "file": self._path,
            "digest": wish.state.digest,
            "commit": self._tree,
            "repository": self._repository.shown_url,
            "ref": self._ref,
        }

    def _newest(self) -> str:
        """The commit that the reference names; what the last fetch said, while the next one is not due."""
        now = self._clock.monotonic()
        if now >= self._fetch_at:
            self._fetch_at = now + self._interval
            self._trouble = None
            try:
                self._repository.prepare()
                self._commit = self._repository.fetch(self._ref)
            except NodeError as error:
                self._trouble = error
        if self._trouble is not None:
            raise self._trouble
        return self._commit

    def _load(self, commit: str) -> Wish:
        if self._verifies and commit != self._tree:
            try:
                self._repository.verify()
            except NodeError as error:
                raise _UnsignedError(str(error)) from None
        self._check_out(commit)
        return self._state()

    def _state(self) -> Wish:
        path = os.path.join(self._repository.tree, self._path)
        if not os.path.realpath(path).startswith(os.path.realpath(self._repository.tree) + os.sep):
            raise RefusedError(f"{self._path} leads out of the repository")
        state, data, _ = state_from(path)
        return Wish(state, data)

    def _check_out(self, commit: str) -> None:
        if commit != self._tree:
            self._tree = None  # whatever happens now, it is not known to be whole
            self._repository.check_out(commit)
            self._tree = commit

    def _return(self) -> None:
        if (good := self._repository.good()) is not None:
            self._check_out(good)


class _UnsignedError(NodeError):
    """No good signature."""
