"""Turn PCI addresses into what sysfs knows of the devices: NUMA node, way to each other, treatment by the IOMMU."""

from __future__ import annotations

import re

from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.gpu import PcieLink

ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


def device_folder(address: str | None) -> str | None:
    """The folder of a PCI device in sysfs, which writes the domain with at least four digits, the driver with eight.

    >>> device_folder("00000000:1B:00.0"), device_folder("00010000:C1:00.0")
    ('bus/pci/devices/0000:1b:00.0', 'bus/pci/devices/10000:c1:00.0')
    """
    match = ADDRESS.fullmatch((address or "").lower())
    return f"bus/pci/devices/{int(match[1], 16):04x}:{match[2]}" if match else None


def numa_node(sys: Tree, folder: str | None) -> int | None:
    """The NUMA node of a device by its folder; None where the platform does not tell (-1)."""
    text = (sys.text(f"{folder}/numa_node") or "").strip() if folder else ""
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None


def pci_path(sys: Tree, folder: str | None) -> tuple[str, ...]:
    """The host bridge, the bridges and the device that a folder stands for; empty when it is no PCI device.

    >>> pci_path_of("devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0")
    ('pci0000:15', '0000:15:01.0', '0000:16:00.0', '0000:17:00.0')
    """
    return pci_path_of((sys.place(folder) if folder else None) or "")


def pci_path_of(place: str) -> tuple[str, ...]:
    """The same for a path below /sys."""
    parts = place.split("/")
    start = next((at for at, part in enumerate(parts) if HOST_BRIDGE.fullmatch(part)), len(parts))
    path = parts[start : start + 1]
    for part in parts[start + 1 :]:
        if not ADDRESS.fullmatch(part):
            break
        path.append(part)
    return tuple(path) if len(path) > 1 else ()


def pcie_link(one: tuple[str, ...], other: tuple[str, ...], numa: tuple[int | None, int | None]) -> PcieLink | None:
    """What lies between two devices, from their paths and NUMA nodes; None where that does not tell.

    A switch shows as a bridge upstream and one below it for each port: two devices below one switch have all of their
    paths in common but the last bridge.
    """
    if not one or not other:
        return None
    if one[0] != other[0]:
        return None if None in numa else PcieLink.NODE if numa[0] == numa[1] else PcieLink.SYS
    shared = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    if shared == 1 and one[1].rpartition(".")[0] != other[1].rpartition(".")[0]:
        return PcieLink.PHB
    return PcieLink.PIX if max(len(one), len(other)) - shared <= 2 else PcieLink.PXB


def iommu_type(sys: Tree, folder: str | None) -> str | None:
    """How the IOMMU treats the device, in the kernel's word: `identity`, `DMA`, `DMA-FQ`…; None without a group."""
    return ((sys.text(f"{folder}/iommu_group/type") or "").strip() or None) if folder else None
