"""Choose the one RDMA fabric of the node among its ports: what engines of several nodes would talk over.

InfiniBand and RoCE are never mixed, since NCCL pairs adapters that cannot reach each other. Which ports serve engines
and which storage or people is decided by evidence, the best first: the PCIe way to the cards, the kind, the rate, then
routes and mounts. What evidence cannot tell is said, not guessed: two InfiniBand fabrics often show one subnet prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llmgw_reconcile.discovery.networks import Services
from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort

PREFERENCE = (RdmaKind.INFINIBAND, RdmaKind.ROCE)
NAMES = {RdmaKind.INFINIBAND: "InfiniBand", RdmaKind.ROCE: "RoCE", RdmaKind.EFA: "EFA", RdmaKind.OTHER: "other"}
BY_HAND = "name the ports in `node.fabric.hcas`"


class Evidence(NamedTuple):
    """What else is known of the node; the PCIe way to the cards stands with each port."""

    gpu_count: int | None = None
    services: Services = Services()


class Choice:
    """Usable ports, narrowed down step by step; whoever is left out is remembered with the reason."""

    def __init__(self, ports: Sequence[RdmaPort]) -> None:
        self.ports = [port for port in ports if port.usable and port.kind in PREFERENCE]
        self.left_out: dict[str, str] = {}

    def drop(self, speaks_against: Callable[[RdmaPort], str]) -> None:
        """Leave out the ports that something speaks against, if it spares others."""
        against = {port.name: why for port in self.ports if (why := speaks_against(port))}
        if len(against) < len(self.ports):
            self.drop_all(against)

    def drop_all(self, against: dict[str, str]) -> None:
        """Leave out these ports, for the reason that stands with each."""
        self.left_out |= against
        self.ports = [port for port in self.ports if port.name not in against]


NO_EVIDENCE = Evidence()


def choose_fabric(ports: Sequence[RdmaPort], evidence: Evidence = NO_EVIDENCE) -> tuple[tuple[RdmaPort, ...], Fabric]:
    """The ports, those of the fabric marked `in_fabric`, and the fabric; its kind is None on an island."""
    fabric = _choose(ports, evidence)
    return tuple(port._replace(in_fabric=port.name in fabric.ports) for port in ports), fabric


def _choose(ports: Sequence[RdmaPort], evidence: Evidence) -> Fabric:
    choice = Choice(ports)
    choice.drop_all({port.name: f"software RoCE: {BY_HAND} to use it" for port in choice.ports if port.is_software})
    if not choice.ports:
        return Fabric(None, (), f"no RDMA port is usable{_left_out(choice)}" if ports else "no RDMA adapters")
    devices = {port.device for port in choice.ports}
    choice.drop(lambda port: f"part of {port.physical_function}" if port.physical_function in devices else "")
    ways_are_known = all(port.near_gpus is not None for port in choice.ports)
    if ways_are_known:
        choice.drop(lambda port: "" if port.near_gpus else "not near a GPU")
    kind = next(kind for kind in PREFERENCE if any(port.kind is kind for port in choice.ports))
    choice.drop(lambda port: "" if port.kind is kind else f"{NAMES[port.kind]}, never mixed with {NAMES[kind]}")
    fastest = max(port.rate_gbps or 0.0 for port in choice.ports)
    choice.drop(lambda port: "" if (port.rate_gbps or 0.0) == fastest else f"of {_rate(port)}")
    is_decided_by_way = ways_are_known and any(port.near_gpus for port in choice.ports)
    if not is_decided_by_way:
        choice.drop(lambda port: evidence.services.of((port.netdev, port.bond)))
    return _of_one_subnet(kind, choice, None if is_decided_by_way else evidence.gpu_count)


def _of_one_subnet(kind: RdmaKind, choice: Choice, gpu_count: int | None) -> Fabric:
    """The largest group of ports that may reach each other, unless something disproves that they do."""
    groups: dict[object, list[RdmaPort]] = {}
    for port in choice.ports:
        members = frozenset(int(pkey, 16) & 0x7FFF for pkey in port.pkeys)  # the top bit: full or limited membership
        groups.setdefault((port.subnet_prefix, port.sm_lid, members), []).append(port)
    best, *others = sorted(groups.values(), key=len, reverse=True)
    if others and len(others[0]) == len(best):
        return _undecided([best, others[0]], "are equal in rate and number, and in different subnets")
    choice.drop_all({port.name: "in another subnet" for group in others for port in group})
    lids = {port.lid: port for port in best if port.lid}
    for port in best:
        if port.lid and (twin := lids[port.lid]) is not port:
            return _undecided([[port], [twin]], f"have the same LID {port.lid}, so they are in two fabrics")
    if gpu_count and len(best) > gpu_count and len(best) % gpu_count:
        return _undecided([best], f"are {len(best)} equal ports for {gpu_count} GPUs, so some serve something else")
    reason = f"{len(best)} usable {NAMES[kind]} port{'s' if len(best) > 1 else ''} of {_rate(best[0])}"
    return Fabric(kind, tuple(port.name for port in best), f"{reason}{_left_out(choice)}")


def _undecided(groups: Sequence[Sequence[RdmaPort]], why: str) -> Fabric:
    candidates = tuple(tuple(port.name for port in group) for group in groups)
    names = " and ".join(map(",".join, candidates))
    return Fabric(None, (), f"undecided: {names} {why}; {BY_HAND}", candidates)


def _left_out(choice: Choice) -> str:
    names = ", ".join(f"{name} ({why})" for name, why in choice.left_out.items())
    return f"; left out: {names}" if names else ""


def _rate(port: RdmaPort) -> str:
    return "unknown rate" if port.rate_gbps is None else f"{port.rate_gbps:g} Gb/s"
