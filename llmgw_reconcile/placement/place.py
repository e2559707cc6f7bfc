"""Engines, a node and what runs on it to the placement of each engine: GPUs, port and executable."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.gpus import assign_gpus
from llmgw_reconcile.placement.ports import assign_ports


class Running(NamedTuple):
    """What an engine that lives now occupies."""

    gpus: tuple[str, ...]  # UUIDs, in its order
    port: int | None


class Placed(NamedTuple):
    """One engine with its placement, or with every reason why it has none."""

    spec: EngineSpec
    placement: Placement | None
    refusals: tuple[Diagnostic, ...] = ()


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
) -> tuple[Placed, ...]:
    """The placement of every engine of `specs`, in that order; the same input gives the same answer.

    A running engine keeps its GPUs and its port, even on a card that is unfit by now; it moves only when its spec asks
    for other cards. A running engine that `specs` does not name will be stopped, so that its cards are free. `kept` are
    running engines that stay as they are, since their replacement is blocked: the others are placed round what they
    have, and the answer for them is what they would get. `executables` are by engine; `busy_ports` are those of
    strangers.
    """
    wanted = {spec.engine for spec in specs}
    staying = {engine: now for engine, now in running.items() if engine in wanted or engine in kept}
    held_gpus = {engine: now.gpus for engine, now in staying.items()}
    held_ports = {engine: now.port for engine, now in staying.items() if now.port is not None}
    offers = assign_gpus(specs, inventory, held_gpus, cordon=cordon, kept=kept)
    # an engine without GPUs takes no port from those that have some, unless it names one
    served = [spec for spec in specs if not offers[spec.engine].refusals or spec.port is not None]
    answers = assign_ports(served, held_ports, ports=ports, busy=busy_ports, kept=kept)
    placed = []
    for spec in specs:
        offer, port = offers[spec.engine], answers.get(spec.engine)
        if isinstance(port, int) and not offer.refusals:
            placed.append(Placed(spec, Placement(spec, offer.gpus, port, executables[spec.engine])))
        else:
            refused = (port,) if isinstance(port, Diagnostic) else ()
            placed.append(Placed(spec, None, offer.refusals + refused))
    return tuple(placed)
