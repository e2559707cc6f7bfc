"""Facts about one GPU, as the driver reports them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

MIG_UUID, MIG_CLASS = "MIG-", "-mig-"  # what UUIDs of MIG devices begin with, and what their classes hold


class HolderKind(StrEnum):
    """Whose process it is that holds memory on a GPU."""

    OURS = "ours"  # of a running engine of ours
    LEFT_OVER = "left-over"  # of an engine of ours whose leader is dead
    OTHER_LLMGW = "other-llmgw"  # of an engine of another user's llmgw, or of another state directory's
    FOREIGN = "foreign"
    NOT_VISIBLE = "not-visible"  # /proc does not show it: another pid namespace, hidden, or just ended


class Holder(NamedTuple):
    """A process that holds memory on a GPU; `engine` is set when the process is ours, unknown fields are None."""

    pid: int
    user: str | None = None
    command: str | None = None  # program, and script or module of an interpreter: never arguments
    memory_mb: int | None = None
    engine: str | None = None
    kind: HolderKind = HolderKind.FOREIGN

    @property
    def is_ours(self) -> bool:
        """Whether the process belongs to an engine of ours, its leader alive or not."""
        return self.kind in (HolderKind.OURS, HolderKind.LEFT_OVER)


class MigSlice(NamedTuple):
    """One MIG device of a card; `profile` is the driver's name, such as 3g.40gb, and 1c.3g.40gb for a part of one."""

    uuid: str
    profile: str
    memory_mb: int | None = None  # the driver's figure; the profile's is rounded. Parts of one slice share it
    gpu_class: str = "unknown"  # "h100-mig-3g.40gb"
    memory_used_mb: int | None = None
    problems: tuple[str, ...] = ()  # words, and any of them makes the slice unfit
    holders: tuple[Holder, ...] = ()


class Mig(NamedTuple):
    """MIG mode of a card and its slices; None: in MIG mode, and nobody asked for them."""

    enabled: bool
    slices: tuple[MigSlice, ...] | None = ()


class GpuHealth(NamedTuple):
    """What the driver says of a card's condition; `problems` are words, and any of them makes the card unfit."""

    ecc_errors: int | None = None  # uncorrected, since the driver was loaded
    temperature_c: int | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # words: worth knowing, and no reason to leave the card alone


class PcieLink(StrEnum):
    """What lies on the PCIe way between two devices, the nearest first; the words of `nvidia-smi topo -m`."""

    PIX = "PIX"  # one switch
    PXB = "PXB"  # several switches
    PHB = "PHB"  # a host bridge
    NODE = "NODE"  # several host bridges of one NUMA node
    SYS = "SYS"  # the interconnect between NUMA nodes

    @property
    def is_near(self) -> bool:
        """Whether the way stays below a host bridge."""
        return self in (PcieLink.PIX, PcieLink.PXB)


class GpuLink(NamedTuple):
    """What connects a card with another one; None: not known."""

    gpu: int  # index of the other
    nvlinks: int | None = None  # 0: none
    pcie: PcieLink | None = None


class AdapterLink(NamedTuple):
    """An RDMA adapter, and the PCIe way to it."""

    device: str
    pcie: PcieLink


class Gpu(NamedTuple):
    """One card. A card that was lost has neither `index` nor `uuid`; every other unknown is None too, never 0."""

    index: int | None  # type: ignore[assignment]  # shadows tuple.index, which nobody calls on a card
    uuid: str | None
    name: str | None
    gpu_class: str  # "h100-80g"; "unknown" when the driver gives no name
    memory_total_mb: int | None = None
    memory_used_mb: int | None = None
    compute_capability: str | None = None  # "9.0"
    numa_node: int | None = None
    pci_bus_id: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    nvlink_peers: tuple[int, ...] | None = None
    mig: Mig | None = None
    health: GpuHealth = GpuHealth()
    holders: tuple[Holder, ...] = ()
    links: tuple[GpuLink, ...] | None = None  # to every other card, by index
    adapters: tuple[AdapterLink, ...] | None = None  # the nearest RDMA adapters
    display: bool | None = None  # it drives a display

    @property
    def is_healthy(self) -> bool:
        """Whether nothing speaks against placing an engine on it, memory held by others included."""
        return not self.health.problems

    @property
    def label(self) -> str:
        """What people call it: `GPU 3 (h100-80g)`."""
        place = self.pci_bus_id or self.uuid or "an unknown address"
        name = f"GPU {self.index}" if self.index is not None else f"GPU at {place}"
        return f"{name} ({self.gpu_class})"

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability as numbers, so that 10.0 is above 9.0."""
        if self.compute_capability is None:
            return None
        major, _, minor = self.compute_capability.partition(".")
        return int(major), int(minor or 0)

    @property
    def is_slice(self) -> bool:
        """Whether it is a MIG slice of a card, as `parts` gives them."""
        return (self.uuid or "").startswith(MIG_UUID)

    @property
    def parts(self) -> tuple[Gpu, ...]:
        """What can be given to an engine: the card, or in MIG mode each slice as a card of its own.

        A slice has its own UUID, class, memory, problems and holders, and neither index nor PCI address. A card in MIG
        mode whose slices are not known stands for itself, unfit.
        """
        if self.mig is None or not self.mig.enabled or not self.mig.slices:
            return (self,)
        return tuple(
            self._replace(
                index=None,
                uuid=one.uuid,
                name=f"{self.name} MIG {one.profile}",
                gpu_class=one.gpu_class,
                memory_total_mb=one.memory_mb,
                memory_used_mb=one.memory_used_mb,
                pci_bus_id=None,
                nvlink_peers=(),
                mig=None,
                health=self.health._replace(problems=one.problems),
                holders=one.holders,
                links=(),
            )
            for one in self.mig.slices
        )
