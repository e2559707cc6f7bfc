"""Facts about one GPU, as the driver reports them."""

from __future__ import annotations

from typing import NamedTuple


class Holder(NamedTuple):
    """A process that holds memory on a GPU; `engine` is set when the process is ours, unknown fields are None."""

    pid: int
    user: str | None = None
    command: str | None = None  # program, and script or module of an interpreter: never arguments
    memory_mb: int | None = None
    engine: str | None = None


class MigSlice(NamedTuple):
    """One MIG device of a card; `profile` is the driver's name, such as 3g.40gb."""

    uuid: str
    profile: str
    memory_mb: int | None = None


class Mig(NamedTuple):
    """MIG mode of a card and its slices."""

    enabled: bool
    slices: tuple[MigSlice, ...] = ()


class GpuHealth(NamedTuple):
    """What the driver says of a card's condition; `problems` are words, and any of them makes the card unfit."""

    ecc_errors: int | None = None  # uncorrected, since the driver was loaded
    temperature_c: int | None = None
    problems: tuple[str, ...] = ()


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
