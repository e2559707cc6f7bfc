"""Look at a node without asking any engine: what it has, and what runs by records and the kernel."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.discovery.engines import observe
from llmgw_reconcile.discovery.inventory import begin_inventory
from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.observed import ObservedState
from llmgw_reconcile.workflow.host import Host


class Glance(NamedTuple):
    """What was seen; an engine that does not answer any more still shows as it last said."""

    inventory: Inventory
    observed: ObservedState


def glance(host: Host) -> Glance:
    """The node now. An engine that hangs would hold a probe for its whole time-out; here none is sent."""
    with begin_inventory(
        node=host.node,
        sys_root=host.sys_root,
        held_above_mb=DEFAULT_HELD_ABOVE_MB,
        with_versions=True,
        with_slices=True,
    ) as pending:
        observed = observe(host.state_dir)
        return Glance(pending.finish(observed), observed)
