"""Facts about RDMA adapters, and the fabric they form."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class RdmaKind(StrEnum):
    """What a port speaks."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    EFA = "efa"
    OTHER = "other"  # iWARP, Omni-Path, management devices, anything undecided


class RdmaPort(NamedTuple):
    """One port of one adapter, in sysfs's words; unknown is None."""

    device: str
    port: int
    kind: RdmaKind
    link_layer: str | None = None
    state: str | None = None  # "ACTIVE"
    phys_state: str | None = None  # "LinkUp"
    rate_gbps: float | None = None
    lid: int | None = None
    sm_lid: int | None = None
    subnet_prefix: str | None = None  # first four groups of GID 0
    netdev: str | None = None
    numa_node: int | None = None
    usable: bool = False
    in_fabric: bool = False
    problems: tuple[str, ...] = ()


class Fabric(NamedTuple):
    """The fabric that was chosen: `kind` None is an island (complete by itself, no error); `reason` says why."""

    kind: RdmaKind | None
    ports: tuple[str, ...]  # "mlx5_0:1"
    reason: str
