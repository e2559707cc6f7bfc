"""Plan against a recorded node: on a laptop, in a pipeline, on any system."""

from __future__ import annotations

import os
from collections.abc import Sequence

from llmgw_reconcile.cli.recorded import read_document
from llmgw_reconcile.discovery.snapshot import world_of
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.planning import Planned, World, make_plan


def plan_offline(state: DesiredState, path: str, targets: Sequence[str], peers: Sequence[Inventory] = ()) -> Planned:
    """The plan for the node that the snapshot recorded. Raises RefusedError when the file is no snapshot."""
    document = read_document(path, "snapshot")
    try:
        inventory, observed = world_of(document)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise RefusedError(f"cannot use {path}: a part of it is no snapshot; record it anew") from None
    host = Host(inventory.node, (inventory.node,), StateDir("/var/lib/llmgw"), os.environ, "/sys", SystemClock())
    return make_plan(host, state, world=World(inventory, observed, is_here=False), targets=targets, peers=peers)
