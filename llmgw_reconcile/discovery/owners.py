"""Tell whose a process is: of an engine of ours, of what is left of one, of another llmgw, or a stranger's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from llmgw_reconcile.discovery.claims import Claim, read_claims
from llmgw_reconcile.discovery.engines import engine_finder
from llmgw_reconcile.model.gpu import HolderKind
from llmgw_reconcile.model.observed import ObservedState

DEEPEST = 64  # parents that are asked for; engines nest three deep


class Owners(NamedTuple):
    """What records of ours and command lines of supervisors tell about processes."""

    engine_of: Callable[[int], str | None]  # pid -> "M@N" of the engine of ours that it belongs to
    leaderless: frozenset[str] = frozenset()  # engines of ours of which only other processes are left
    supervisors: frozenset[int] = frozenset()  # pids of those that no record of ours names
    claims: tuple[Claim, ...] = ()  # other users' supervisors: their cards are held from the first moment
    proc_root: str = "/proc"

    def owner_of(self, pid: int) -> tuple[HolderKind, str | None]:
        """Whose process it is, and the engine if it is ours."""
        if engine := self.engine_of(pid):
            return HolderKind.LEFT_OVER if engine in self.leaderless else HolderKind.OURS, engine
        if not os.path.exists(f"{self.proc_root}/{pid}"):
            return HolderKind.NOT_VISIBLE, None
        return (HolderKind.OTHER_LLMGW if self._has_other_supervisor(pid) else HolderKind.FOREIGN), None

    def _has_other_supervisor(self, pid: int) -> bool:
        for _ in range(DEEPEST if self.supervisors else 0):
            pid = _parent_of(pid, self.proc_root)
            if pid in self.supervisors:
                return True
            if pid <= 1:
                break
        return False


def owners_of(observed: ObservedState, proc_root: str = "/proc") -> Owners:
    """The owners as of now. A supervisor that no record of ours names belongs to another llmgw.

    One of this user keeps its records elsewhere, or is about to write them: its cards are not held for that.
    """
    ours = {engine.supervisor.pid for engine in observed.engines if engine.supervisor is not None}
    others = [claim for claim in read_claims(proc_root) if claim.pid not in ours]
    return Owners(
        engine_of=engine_finder(observed),
        leaderless=frozenset(engine.engine for engine in observed.engines if engine.live is None),
        supervisors=frozenset(claim.pid for claim in others),
        claims=tuple(claim for claim in others if claim.uid != os.geteuid()),
        proc_root=proc_root,
    )


def _parent_of(pid: int, proc_root: str) -> int:
    """0 where that cannot be seen."""
    try:
        with open(f"{proc_root}/{pid}/stat", "rb") as file:
            text = file.read(4096)
    except OSError:
        return 0
    fields = text[text.rfind(b")") + 2 :].split()  # the name in parentheses may hold blanks and parentheses
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else 0
