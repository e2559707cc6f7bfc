"""Keep what was applied last: the file as it was, and who applied it when."""

from __future__ import annotations

import os

from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.host.files import read_json, write_atomic, write_json
from llmgw_reconcile.model.desired import DesiredState, NodeSettings
from llmgw_reconcile.workflow.host import Host, own_account

FORMAT_VERSION = 1


def record_applied(host: Host, state: DesiredState, data: bytes, plan_digest: str) -> None:
    """Write applied/state.yaml and applied/applied.json. Raises NodeError."""
    folder = os.path.join(host.state_dir.root, "applied")
    write_atomic(os.path.join(folder, "state.yaml"), data)
    write_json(
        os.path.join(folder, "applied.json"),
        {
            "format_version": FORMAT_VERSION,
            "node": host.node,
            "file": state.source if state.source == "-" else os.path.abspath(state.source),
            "digest": state.digest,
            "plan": plan_digest,
            "settings": state.node._asdict(),
            "user": own_account().user,
            "sudo_user": host.environ.get("SUDO_USER"),
            "at": utc_now(),
        },
    )


def last_settings(host: Host) -> NodeSettings:
    """The `node:` block that was applied last; the defaults where none was."""
    try:
        found = (read_json(os.path.join(host.state_dir.root, "applied", "applied.json")) or {})["settings"]
        return NodeSettings(found["name"], tuple(found["ports"]), tuple(found["cordon"]), int(found["held_above_mb"]))
    except (ValueError, KeyError, TypeError):
        return NodeSettings()
