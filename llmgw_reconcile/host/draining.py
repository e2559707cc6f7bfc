"""Say of an engine that it is about to stop: a mark in its folder that counts only while whoever set it lives.

An llmgw that is killed in between leaves an engine that serves on, and that everybody may be sent to again.
"""

from __future__ import annotations

import os
from contextlib import suppress

from llmgw_reconcile.host.files import read_json, write_json
from llmgw_reconcile.host.proc import boot_id, identify, is_alive
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.observed import ProcessId

FORMAT_VERSION = 1
MARK = "draining.json"


def mark_draining(folder: EngineDir) -> None:
    """Nobody is to be sent to this engine any more, as long as this process lives. Raises NodeError."""
    me = identify(os.getpid()) or ProcessId(os.getpid(), 0)
    write_json(folder.file(MARK), {"format_version": FORMAT_VERSION, "boot_id": boot_id(), **me._asdict()})


def unmark_draining(folder: EngineDir) -> None:
    """It does not stop after all, or has stopped; without a mark nothing happens."""
    with suppress(OSError):
        os.unlink(folder.file(MARK))


def is_draining(folder: EngineDir) -> bool:
    """Whether a living llmgw has set the mark; a damaged one is none."""
    try:
        found = read_json(folder.file(MARK), lambda mark: mark.get("format_version") == FORMAT_VERSION)
        return found is not None and found["boot_id"] == boot_id() and is_alive(ProcessId(found["pid"], found["ticks"]))
    except (KeyError, TypeError, ValueError):
        return False
