"""Look at what runs and at who else holds this node's GPUs, for status and snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.engines import observe, with_probes
from llmgw_reconcile.discovery.inventory import begin_inventory
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.observed import ForeignProcess, ObservedState


class StatusLook(NamedTuple):
    """What was seen."""

    inventory: Inventory
    observed: ObservedState
    foreign: tuple[ForeignProcess, ...]


def look_at_status(
    state_dir: StateDir, *, node: str, sys_root: str, environ: Mapping[str, str], is_complete: bool = False
) -> StatusLook:
    """Look at the GPUs and the engines side by side; `is_complete`: at all that an inventory can hold."""
    with begin_inventory(
        node=node,
        sys_root=sys_root,
        held_above_mb=DEFAULT_HELD_ABOVE_MB,
        with_versions=is_complete,
        with_topology=is_complete,
        with_slices=is_complete,
        with_fabric=is_complete,
    ) as pending:
        observed = with_probes(observe(state_dir), environ)
        inventory = pending.finish(observed)
    return StatusLook(inventory, observed, tuple(_foreign_holders(inventory.gpus)))


def _foreign_holders(gpus: Iterable[Gpu]) -> Iterable[ForeignProcess]:
    for gpu in gpus:
        for holder in gpu.holders:
            if holder.engine is None:
                amount = "memory" if holder.memory_mb is None else f"{holder.memory_mb} MiB"
                yield ForeignProcess(holder.pid, holder.user, holder.command, f"{gpu.label}: {amount}")
