"""Choose the one RDMA fabric of the node among its ports: what engines of several nodes would talk over.

InfiniBand and RoCE are never mixed, since NCCL pairs adapters that cannot reach each other. What sysfs cannot tell is
said, not guessed: two InfiniBand fabrics often show the same subnet prefix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort

PREFERENCE = (RdmaKind.INFINIBAND, RdmaKind.ROCE)
NAMES = {RdmaKind.INFINIBAND: "InfiniBand", RdmaKind.ROCE: "RoCE", RdmaKind.EFA: "EFA", RdmaKind.OTHER: "other"}


def choose_fabric(ports: Sequence[RdmaPort]) -> tuple[tuple[RdmaPort, ...], Fabric]:
    """The ports, those of the fabric marked `in_fabric`, and the fabric; its kind is None on an island.

    The fabric is the largest group of usable ports of the highest rate that share a subnet; other usable ports serve
    storage or management.
    """
    fabric = _choose(ports)
    return tuple(port._replace(in_fabric=_name(port) in fabric.ports) for port in ports), fabric


def _choose(ports: Sequence[RdmaPort]) -> Fabric:
    for kind in PREFERENCE:
        candidates = [port for port in ports if port.usable and port.kind is kind]
        if candidates:
            return _largest(kind, candidates, ports)
    return Fabric(kind=None, ports=(), reason="no RDMA port is usable" if ports else "no RDMA adapters")


def _largest(kind: RdmaKind, candidates: Iterable[RdmaPort], ports: Iterable[RdmaPort]) -> Fabric:
    groups: dict[tuple[object, ...], list[RdmaPort]] = {}
    for port in candidates:
        groups.setdefault((port.rate_gbps, port.subnet_prefix, port.sm_lid), []).append(port)
    best, *others = sorted(groups.values(), key=_size, reverse=True)
    if others and _size(others[0]) == _size(best):
        return _undecided(best, others[0], "are equal in rate and number, and in different subnets")
    lids = {port.lid: port for port in best if port.lid}
    for port in best:
        if port.lid and (twin := lids[port.lid]) is not port:
            return _undecided([port], [twin], f"have the same LID {port.lid}, so they are in two fabrics")
    chosen = tuple(map(_name, best))
    left_out = [_name(port) for port in ports if port.usable and _name(port) not in chosen]
    rate = "of unknown rate" if best[0].rate_gbps is None else f"of {best[0].rate_gbps:g} Gb/s"
    reason = f"{len(best)} usable {NAMES[kind]} port{'s' if len(best) > 1 else ''} {rate}"
    return Fabric(kind, chosen, f"{reason}; left out: {', '.join(left_out)}" if left_out else reason)


def _size(group: Sequence[RdmaPort]) -> tuple[float, int]:
    return group[0].rate_gbps or 0.0, len(group)


def _undecided(one: Sequence[RdmaPort], other: Sequence[RdmaPort], why: str) -> Fabric:
    names = " and ".join(",".join(map(_name, group)) for group in (one, other))
    return Fabric(kind=None, ports=(), reason=f"undecided: {names} {why}")


def _name(port: RdmaPort) -> str:
    return f"{port.device}:{port.port}"
