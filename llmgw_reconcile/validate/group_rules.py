"""The inventories of the nodes of one group to what they disagree on: NCCL does not ask, it hangs.

With NCCL_IGNORE_NET_MISMATCH at its default, unequal adapters are a line in a log that nobody reads, and then a silent
spin (NVIDIA/nccl 2.30.7, src/init.cc).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from llmgw_reconcile.engines.link import chosen_ports, has_efa
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import Device, FabricChoice
from llmgw_reconcile.model.group import rank_of
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.rdma import RdmaKind, RdmaPort

AUTOMATIC = FabricChoice()
MEMBERSHIP_MASK = 0x7FFF  # a partition key without the bit for full membership


class Side(NamedTuple):
    """One node of the group, as far as its engine is concerned."""

    inventory: Inventory
    gpu_classes: frozenset[str]  # of the GPUs that the engine gets on this node

    @property
    def name(self) -> str:
        """The node."""
        return self.inventory.node

    @property
    def ports(self) -> tuple[RdmaPort, ...]:
        """Those of the fabric that was found there."""
        return chosen_ports(AUTOMATIC, self.inventory)


Fact = Callable[[Side], str | None]  # in words that are equal where the nodes agree; None: not known


def check_peers(
    placement: Placement, inventory: Inventory, choice: FabricChoice, peers: Sequence[Inventory]
) -> tuple[Diagnostic, ...]:
    """Where this node and the `peers` of the engine's group disagree; none for an engine on one node.

    Inventories of nodes that are not of the group are no peers of it; one of this node itself is passed over.
    """
    nodes, member = placement.spec.model.nodes, placement.member
    if member is None or not peers:
        return ()
    classes = frozenset(gpu.gpu_class for gpu in placement.gpus)
    by_rank = [(rank_of(nodes, [peer.node]), peer) for peer in peers]
    others = [(rank, Side(peer, classes)) for rank, peer in by_rank if rank not in (None, member.rank)]
    here, there = Side(inventory, classes), [side for _, side in others]
    found = list(_one_host_each([here, *there]))
    if placement.spec.model.device is not Device.CPU:
        found += (finding for side in there for finding in _compare(here, side, MACHINE))
        found += _fabrics(here, there, choice)
    missing = [node.name for rank, node in enumerate(nodes) if rank not in {member.rank, *(rank for rank, _ in others)}]
    if missing:
        found.append(("group-not-compared", f"no inventory of {', '.join(missing)} was given to compare with"))
    engine = placement.spec.engine
    return tuple(Diagnostic(_severity(code), code, engine, message) for code, message in found)


def _severity(code: str) -> Severity:
    return Severity.NOTE if code == "group-not-compared" else Severity.ERROR


def _compare(here: Side, there: Side, facts: Sequence[tuple[str, Fact]]) -> Iterator[tuple[str, str]]:
    for words, fact in facts:
        ours, theirs = fact(here), fact(there)
        if ours is None or theirs is None:
            unknown = here if ours is None else there
            yield "group-not-compared", f"{words} of {unknown.name}: not known, so not compared"
        elif ours != theirs:
            yield "group-disagreement", f"{words}: {ours} on {here.name}, {theirs} on {there.name}"


def _one_host_each(sides: Sequence[Side]) -> Iterator[tuple[str, str]]:
    """Two nodes of a group that are one machine would share its GPUs."""
    for one, other in combinations(sides, 2):
        both = _uuids(one) & _uuids(other)
        if both:
            yield "group-disagreement", f"{one.name} and {other.name} are one host: both have {min(both)}"
        elif one.name == other.name:
            yield "group-disagreement", f"{one.name}: two inventories that differ"


def _uuids(side: Side) -> set[str]:
    return {gpu.uuid for gpu in side.inventory.gpus if gpu.uuid}


def _one_fabric(sides: Sequence[Side]) -> Iterator[tuple[str, str]]:
    """A LID is unique within a subnet: twice under one prefix, and there are two fabrics that only look alike."""
    seen: dict[tuple[str | None, int], str] = {}
    for side in sides:
        for port in side.ports:
            if port.kind is not RdmaKind.INFINIBAND or not port.lid:
                continue
            name = f"{port.name} of {side.name}"
            twin = seen.setdefault((port.subnet_prefix, port.lid), name)
            if twin != name:
                message = f"{twin} and {name} have one LID, {port.lid}, so they are in two fabrics"
                yield "group-disagreement", message


def _fabrics(here: Side, there: Sequence[Side], choice: FabricChoice) -> Iterator[tuple[str, str]]:
    if choice.hcas:
        words = f"node.fabric.hcas chooses the RDMA ports of {here.name}, and those of the others are not known"
        yield "group-not-compared", words
    elif choice.use_rdma:
        for side in there:
            is_same = _fabric(here) == _fabric(side)
            yield from _compare(here, side, FABRIC if is_same else FABRIC[:1])
        yield from _one_fabric([here, *there])
        yield from _one_partition([here, *there])


def _one_partition(sides: Sequence[Side]) -> Iterator[tuple[str, str]]:
    """InfiniBand ports talk only within a partition."""
    ports = (port for side in sides for port in side.ports if port.kind is RdmaKind.INFINIBAND and port.pkeys)
    partitions = [{int(key, 16) & MEMBERSHIP_MASK for key in port.pkeys} for port in ports]
    if partitions and not set.intersection(*partitions):
        yield "group-disagreement", f"the RDMA ports of {', '.join(side.name for side in sides)} share no partition key"


def _fabric(side: Side) -> str:
    if has_efa(AUTOMATIC, side.inventory):
        return str(RdmaKind.EFA)
    return str(side.inventory.fabric.kind or "none")


def _port_count(side: Side) -> str:
    return str(len(side.ports))


def _rate(side: Side) -> str | None:
    rates = {port.rate_gbps for port in side.ports}
    return None if None in rates else ", ".join(f"{rate:g} Gb/s" for rate in sorted(filter(None, rates))) or "none"


def _subnet(side: Side) -> str | None:
    prefixes = {port.subnet_prefix for port in side.ports if port.kind is RdmaKind.INFINIBAND}
    return None if None in prefixes else ", ".join(sorted(filter(None, prefixes))) or "none"


def _gpus(side: Side) -> str | None:
    """How many of the class that the engine uses; of another node that has none of them, what it has instead."""
    if not side.inventory.gpus_known:
        return None
    counts = Counter(gpu.gpu_class for gpu in side.inventory.gpus)
    used = {name: count for name, count in counts.items() if name in side.gpu_classes} or counts
    return ", ".join(f"{count} x {name}" for name, count in sorted(used.items())) or "none"


def _driver(side: Side) -> str | None:
    """By its major version: peers of one branch work together."""
    version = side.inventory.driver_version
    return None if version is None else version.partition(".")[0]


# What the nodes of a group must agree on; adapters are compared where both nodes have the same kind of fabric.
MACHINE: tuple[tuple[str, Fact], ...] = (("GPUs", _gpus), ("driver", _driver))
FABRIC: tuple[tuple[str, Fact], ...] = (
    ("fabric", _fabric),
    ("RDMA ports", _port_count),
    ("rate", _rate),
    ("subnet", _subnet),
)
