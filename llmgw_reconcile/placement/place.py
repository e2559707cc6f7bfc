"""Engines, a node and what runs on it to the placement of each engine: GPUs, port and executable."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement, PortNeeds
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.gpus import NO_INDEX_IS_BOUND, assign_gpus
from llmgw_reconcile.placement.ports import NO_NEEDS, assign_ports


class Running(NamedTuple):
    """What an engine that lives now occupies."""

    gpus: tuple[str, ...]  # UUIDs, in its order
    port: int | None


class Placed(NamedTuple):
    """One engine with its placement, or with every reason why it has none."""

    spec: EngineSpec
    placement: Placement | None
    refusals: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()  # about cards that it was given now


def place(
    specs: Sequence[EngineSpec],
    inventory: Inventory,
    running: Mapping[str, Running],
    *,
    ports: tuple[int, int],
    cordon: Sequence[str],
    busy_ports: Container[int],
    executables: Mapping[str, str],
    kept: Collection[str] = (),
    port_needs: Mapping[str, PortNeeds] = NO_NEEDS,
    bound: Mapping[str, Mapping[str, str]] = NO_INDEX_IS_BOUND,
) -> tuple[Placed, ...]:
    """The placement of every engine of `specs`, in that order; the same input gives the same answer.

    A running engine keeps its GPUs and its port, even on a card that is unfit by now; it moves only when its spec asks
    for other cards. A running engine that `specs` does not name will be stopped, so that its cards are free. `kept` are
    running engines that stay as they are, since their replacement is blocked: the others are placed round what they
    have, and the answer for them is what they would get. `executables` and `port_needs` are by engine, and so is
    `bound`: the UUID that an index in `gpus.ids` stood for at its last start; `busy_ports` are those of strangers.
    """
    wanted = {spec.engine for spec in specs}
    staying = {engine: now for engine, now in running.items() if engine in wanted or engine in kept}
    held_gpus = {engine: now.gpus for engine, now in staying.items()}
    held_ports = {engine: now.port for engine, now in staying.items() if now.port is not None}
    offers = assign_gpus(specs, _with_slices(inventory), held_gpus, cordon=cordon, kept=kept, bound=bound)
    # an engine without GPUs takes no port from those that have some, unless it names one
    served = [spec for spec in specs if not offers[spec.engine].refusals or spec.port is not None]
    ephemeral = inventory.limits.ephemeral_ports
    answers = assign_ports(
        served, held_ports, ports=ports, busy=busy_ports, kept=kept, needs=port_needs, ephemeral=ephemeral
    )
    placed = []
    for spec in specs:
        offer, port = offers[spec.engine], answers.get(spec.engine)
        if not isinstance(port, Diagnostic) and not offer.refusals:
            placement = Placement(spec, offer.gpus, port, executables[spec.engine])
            placed.append(Placed(spec, placement, warnings=offer.warnings))
        else:
            refused = (port,) if isinstance(port, Diagnostic) else ()
            placed.append(Placed(spec, None, offer.refusals + refused))
    return tuple(placed)


def _with_slices(inventory: Inventory) -> Inventory:
    """The same with the MIG slices beside their cards, which stay in the list to be refused by name."""
    return inventory._replace(gpus=tuple(dict.fromkeys(one for gpu in inventory.gpus for one in (gpu, *gpu.parts))))
