"""Keep what was applied last: the file as it was, and who applied it when."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.checkout import commit_of
from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.host.files import read_json, read_private, write_atomic, write_json
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DesiredState, FabricChoice, NodeSettings
from llmgw_reconcile.statefile.read import MAX_BYTES
from llmgw_reconcile.workflow.host import Host, own_account

FORMAT_VERSION = 1


def record_applied(host: Host, state: DesiredState, data: bytes, plan_digest: str) -> None:
    """Write applied/state.yaml and applied/applied.json. Raises NodeError."""
    write_atomic(os.path.join(host.state_dir.root, "applied", "state.yaml"), data)
    write_json(
        _about(host.state_dir),
        {
            "format_version": FORMAT_VERSION,
            "node": host.node,
            "file": state.source if state.source == "-" else os.path.abspath(state.source),
            "commit": None if state.source == "-" else commit_of(state.source),
            "digest": state.digest,
            "plan": plan_digest,
            "settings": state.node._asdict() | {"fabric": list(state.node.fabric)},
            "user": own_account().user,
            "sudo_user": host.environ.get("SUDO_USER"),
            "at": utc_now(),
            "ok": None,  # while it is carried out, and if that breaks off
        },
    )


def record_result(host: Host, say: Callable[[str], None], *, ok: bool) -> None:
    """Note how the apply that was recorded last has ended: whether all of it could be done."""
    if found := about_last_apply(host.state_dir):
        try:
            write_json(_about(host.state_dir), found | {"ok": ok})
        except NodeError as error:  # what was done is done, and is to be told all the same
            say(f"how the apply ended is not recorded: {error}")


def about_last_apply(state_dir: StateDir) -> dict[str, Any]:
    """What is recorded of the last apply; empty before the first, and where the record cannot be believed."""
    try:
        return read_json(_about(state_dir)) or {}
    except ValueError:
        return {}


def _about(state_dir: StateDir) -> str:
    return os.path.join(state_dir.root, "applied", "applied.json")


def last_settings(host: Host) -> NodeSettings:
    """The `node:` block that was applied last; the defaults where none was."""
    try:
        found = about_last_apply(host.state_dir)["settings"]
        return NodeSettings(
            found["name"],
            tuple(found["ports"]),
            tuple(found["cordon"]),
            int(found["held_above_mb"]),
            _fabric(*found.get("fabric", FabricChoice())),
        )
    except (ValueError, KeyError, TypeError):  # none yet, or of another version
        return NodeSettings()


class Applied(NamedTuple):
    """The state file that was applied last."""

    data: bytes
    file: str  # its absolute path when it was applied; "-" for standard input


def last_applied(state_dir: StateDir) -> Applied | None:
    """The file applied last; None where none was. Raises NodeError when its records cannot be believed."""
    folder = os.path.join(state_dir.root, "applied")
    state_dir.check()
    try:
        data = read_private(os.path.join(folder, "state.yaml"), limit=MAX_BYTES)
        about = read_json(_about(state_dir))
    except ValueError as reason:
        raise NodeError(f"cannot read what was applied last, in {folder}: {reason}") from None
    if data is None or about is None:
        return None
    return Applied(data, str(about.get("file", "-")))


def _fabric(use_rdma: bool, hcas: Iterable[str], *others: str | None) -> FabricChoice:  # noqa: FBT001
    return FabricChoice(use_rdma, tuple(hcas), *others)
