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


class Gid(NamedTuple):
    """An address of a port; `kind` and `netdev` are None where the kernel does not tell, as on InfiniBand."""

    index: int  # type: ignore[assignment]  # shadows tuple.index
    gid: str  # eight groups of four hexadecimal digits
    kind: str | None = None  # "RoCE v2" | "IB/RoCE v1"
    netdev: str | None = None


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
    gids: tuple[Gid, ...] = ()  # those in use
    pkeys: tuple[str, ...] = ()  # "0xffff"; those in use
    bond: str | None = None  # the bond that its network interface is, or belongs to
    physical_function: str | None = None  # of a virtual one: the adapter, or its PCI address where that is not visible
    virtual_functions: int = 0  # that it has
    is_software: bool = False  # an emulation over an ordinary network interface
    card: str | None = None  # system image GUID: ports of one card have the same
    pci_bus_id: str | None = None
    uverbs: str | None = None  # "uverbs0": the device file that libraries open
    near_gpus: tuple[int, ...] | None = None  # indices of the cards that share a PCIe switch with it

    @property
    def name(self) -> str:
        """As NCCL writes it: `mlx5_0:1`."""
        return f"{self.device}:{self.port}"


class Fabric(NamedTuple):
    """The fabric that was chosen: `kind` None is an island (complete by itself, no error); `reason` says why.

    `candidates` are the groups of ports between which nothing decides; the operator has to say.
    """

    kind: RdmaKind | None
    ports: tuple[str, ...]  # "mlx5_0:1"
    reason: str
    candidates: tuple[tuple[str, ...], ...] = ()
