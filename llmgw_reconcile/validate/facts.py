"""What was found on the node for one engine, for the rules to judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from llmgw_reconcile.model.installed import Installed
from llmgw_reconcile.model.observed import ForeignProcess

if TYPE_CHECKING:
    from llmgw_reconcile.model.checkpoint import Checkpoint  # a plan that starts nothing has none


class EngineFacts(NamedTuple):
    """Each `…_problem` is empty, or says in words what is wrong; unknown is None."""

    executable: str | None  # absolute path, found and executable
    executable_problem: str = ""  # what was looked for, and where
    model_problem: str = ""  # of a local path; a hub id has none
    checkpoint: Checkpoint | None = None  # None: not on this node's disk, or not looked at
    needs_start: bool = False  # whether it is about to be started: only then more than a look was worth it
    installed: Installed = Installed()
    was_asked: bool = False  # whether the installed engine was ever asked about itself
    listener: ForeignProcess | None = None  # a stranger on the engine's port
    address_problem: str = ""  # of `host`
