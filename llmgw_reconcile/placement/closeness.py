"""Cards that one engine could get, and the map of their node, to how well they talk and what they leave to others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory


class Closeness(IntEnum):
    """How near the cards of a group are to each other, the nearest first."""

    ONE_CLIQUE = 1  # NVLink between any two; a single card
    WHOLE_CLIQUES = 2  # of one NUMA node
    ONE_SWITCH = 3  # the PCIe way between any two stays below a host bridge
    ONE_NUMA_NODE = 4
    ANY = 5  # or it is not known


class Waste(NamedTuple):
    """What a group takes away from others; less is better."""

    broken: int  # cliques that were all free, and of which part is left
    leftovers: int  # free cards in the cliques of the group


def closeness(group: Sequence[Gpu], inventory: Inventory) -> Closeness:
    """The nearest relation that is known of all of them."""
    if len(group) == 1:
        return Closeness.ONE_CLIQUE
    members = {gpu.index for gpu in group}
    cliques = {inventory.nvlink_domain_of(gpu.index) for gpu in group}
    nodes = {gpu.numa_node for gpu in group}
    is_one_node = len(nodes) == 1 and None not in nodes
    if None not in cliques and len(cliques) == 1:
        return Closeness.ONE_CLIQUE
    if is_one_node and all(clique and len(clique) > 1 and members.issuperset(clique) for clique in cliques):
        return Closeness.WHOLE_CLIQUES
    if all(members <= near_cards(gpu) for gpu in group):
        return Closeness.ONE_SWITCH
    return Closeness.ONE_NUMA_NODE if is_one_node else Closeness.ANY


def waste(group: Sequence[Gpu], available: Collection[Gpu], inventory: Inventory) -> Waste:
    """What the group breaks and leaves of the cards that it could be chosen from."""
    free, members = {gpu.index for gpu in available}, {gpu.index for gpu in group}
    touched = {clique for gpu in group if (clique := inventory.nvlink_domain_of(gpu.index))}
    broken = [clique for clique in touched if free.issuperset(clique) and not members.issuperset(clique)]
    left = {index for clique in touched for index in clique} & free - members
    return Waste(len(broken), len(left))


def is_known_to_be_far(group: Sequence[Gpu], inventory: Inventory) -> bool:
    """Whether the cards are known to lie in several NUMA nodes, without NVLink between any two of them."""
    is_known = all(gpu.numa_node is not None and inventory.nvlink_domain_of(gpu.index) for gpu in group)
    return is_known and closeness(group, inventory) is Closeness.ANY


def near_cards(gpu: Gpu) -> frozenset[int | None]:
    """The card, and those that it reaches without leaving a PCIe switch; the card alone where that is not known."""
    return frozenset((gpu.index, *(link.gpu for link in gpu.links or () if link.pcie and link.pcie.is_near)))


def neighbourhood(gpu: Gpu, inventory: Inventory) -> tuple[object, ...]:
    """Equal for cards that are as good as each other for any group: of one clique, else of one switch and NUMA node."""
    clique = inventory.nvlink_domain_of(gpu.index)
    if clique and len(clique) > 1:
        return (clique, None, None)
    near = near_cards(gpu)
    return (None, near if len(near) > 1 else None, gpu.numa_node)


def cliques_together(gpus: Iterable[Gpu], inventory: Inventory) -> tuple[Gpu, ...]:
    """The same cards with those of a clique, which are neighbouring ranks then, next to each other."""
    places: dict[object, list[Gpu]] = {}
    for gpu in gpus:
        places.setdefault(inventory.nvlink_domain_of(gpu.index), []).append(gpu)
    return tuple(gpu for clique in places.values() for gpu in clique)
