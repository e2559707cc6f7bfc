"""Turn the directory tree of /sys/class/infiniband into RDMA ports, usable or not and why.

The formats are those of drivers/infiniband/core/sysfs.c. Any file may be missing, or fail when it is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.model.rdma import RdmaKind, RdmaPort

READ_LIMIT = 4096  # bytes; sysfs gives no more than a page
GID_LIMIT = 256  # entries of one table
LIDS_OF_NONE = (0, 0xFFFF)  # not assigned by a subnet manager (yet)
GID_UNUSED = "0000:0000:0000:0000:0000:0000:0000:0000"
GID_LINK_LOCAL = "fe80:"

# Drivers whose link layer says InfiniBand or Ethernet although verbs peers of that kind cannot talk to them.
OTHER_DRIVERS = {
    "hfi1": "Omni-Path",
    "i40iw": "iWARP",
    "iw_cxgb4": "iWARP",
    "cxgb4": "iWARP",
    "siw": "iWARP in software",
    "erdma": "eRDMA",
    "usnic_verbs": "usNIC",
    "usnic": "usNIC",
}
RNIC = "4"  # node_type of an iWARP adapter (ABI/stable/sysfs-class-infiniband)
NO_GUID = "0000:0000:0000:0000"  # what EFA gives


class Device(NamedTuple):
    """What the ports of one adapter have in common."""

    path: str
    name: str
    drivers: frozenset[str]  # what names its driver: the link, the type of the adapter, its name without the number
    node_type: str | None
    guid: str | None
    numa_node: int | None
    netdevs: tuple[str, ...]


def read_rdma_ports(sys_root: str) -> tuple[RdmaPort, ...]:
    """Every port of every adapter in natural order; none when the node has no such class.

    An absent class directory is no proof of absent hardware: its driver may not be loaded.
    """
    root = f"{sys_root}/class/infiniband"
    return tuple(port for name in _names(root) for port in _ports(_device(root, name)))


def read_numa_node(device: str) -> int | None:
    """The NUMA node of a PCI device, given its folder in sysfs; None where the platform does not tell (-1)."""
    text = _read(f"{device}/numa_node")
    return int(text) if text and text.isascii() and text.isdecimal() else None


def natural_key(name: str) -> tuple[object, ...]:
    """Sorts mlx5_2 before mlx5_10, and names that differ in letter case side by side.

    >>> sorted(["mlx5_10", "mlx5_2", "mlx5_bond_0"], key=natural_key)
    ['mlx5_2', 'mlx5_10', 'mlx5_bond_0']
    """
    parts = re.split(r"([0-9]+)", name.lower())  # text and number by turns
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name


def _device(root: str, name: str) -> Device:
    path = f"{root}/{name}"
    named = (_link(f"{path}/device/driver"), _read(f"{path}/hca_type"), re.sub(r"_?[0-9]+$", "", name))
    node_type = _read(f"{path}/node_type")
    return Device(
        path=path,
        name=name,
        drivers=frozenset(text.lower() for text in named if text),
        node_type=node_type.partition(":")[0] if node_type else None,
        guid=_read(f"{path}/node_guid"),
        numa_node=read_numa_node(f"{path}/device"),
        netdevs=_names(f"{path}/device/net"),
    )


def _ports(device: Device) -> Iterator[RdmaPort]:
    for name in _names(f"{device.path}/ports"):
        if name.isdecimal():
            yield _port(device, name)


def _port(device: Device, name: str) -> RdmaPort:
    path = f"{device.path}/ports/{name}"
    link_layer = _read(f"{path}/link_layer")
    kind = _kind(device, link_layer)
    port = RdmaPort(
        device=device.name,
        port=int(name),
        kind=kind,
        link_layer=link_layer,
        state=_word(_read(f"{path}/state")),
        phys_state=_word(_read(f"{path}/phys_state")),
        rate_gbps=_rate(_read(f"{path}/rate")),
        lid=_hexadecimal(_read(f"{path}/lid")),
        sm_lid=_hexadecimal(_read(f"{path}/sm_lid")),
        subnet_prefix=_subnet_prefix(path) if kind is RdmaKind.INFINIBAND else None,
        netdev=(_netdev(path) if link_layer == "Ethernet" else None) or _only(device.netdevs),
        numa_node=device.numa_node,
    )
    problems = tuple(_problems(device, port, path))
    return port._replace(usable=not problems, problems=problems)


def _kind(device: Device, link_layer: str | None) -> RdmaKind:
    """What the port speaks; the link layer alone does not tell."""
    if link_layer not in ("InfiniBand", "Ethernet"):
        is_efa = "efa" in device.drivers or device.guid == NO_GUID
        return RdmaKind.EFA if is_efa and link_layer else RdmaKind.OTHER
    if device.node_type == RNIC or device.drivers & OTHER_DRIVERS.keys():
        return RdmaKind.OTHER
    return RdmaKind.INFINIBAND if link_layer == "InfiniBand" else RdmaKind.ROCE


def _problems(device: Device, port: RdmaPort, path: str) -> Iterator[str]:
    """Why NCCL cannot use the port."""
    if port.kind is RdmaKind.EFA:
        yield "EFA is reached through a plugin of its own"
    elif port.kind is RdmaKind.OTHER:
        names = sorted(OTHER_DRIVERS[driver] for driver in device.drivers & OTHER_DRIVERS.keys())
        yield f"neither InfiniBand nor RoCE: {names[0] if names else port.link_layer or 'its link layer is unknown'}"
    if port.state != "ACTIVE":
        yield f"its state is {port.state or 'unknown'}"
    if port.phys_state != "LinkUp":
        yield f"its physical state is {port.phys_state or 'unknown'}"
    if port.state == "ACTIVE" and port.kind is RdmaKind.INFINIBAND and (port.lid in LIDS_OF_NONE or port.sm_lid == 0):
        yield "no subnet manager has configured it"
    if port.state == "ACTIVE" and port.kind is RdmaKind.ROCE and (problem := _address_problem(path)):
        yield problem


def _address_problem(path: str) -> str:
    """RoCE packets leave with the address of a GID: without one of its network interface there is none.

    A table without a free entry was not read whole, and says nothing.
    """
    has_free = has_link_local = False
    for index in range(GID_LIMIT):
        gid = _read(f"{path}/gids/{index}")
        if gid is None:
            break
        if gid == GID_UNUSED:
            has_free = True
        elif gid.startswith(GID_LINK_LOCAL):
            has_link_local = True
        else:
            return ""
    if not has_free:
        return ""
    if has_link_local:
        return "its network interface has no address"
    return "it has no GID: its network interface is in another network namespace, or down"


def _netdev(path: str) -> str | None:
    """The interface of the first GID in use; an unused index fails with EINVAL, and on InfiniBand each does."""
    indices = _names(f"{path}/gid_attrs/ndevs")
    return next(filter(None, (_read(f"{path}/gid_attrs/ndevs/{index}") for index in indices)), None)


def _only(names: tuple[str, ...]) -> str | None:
    return names[0] if len(names) == 1 else None


def _subnet_prefix(path: str) -> str | None:
    gid = _read(f"{path}/gids/0")
    return gid[:19] if gid and gid != GID_UNUSED and re.fullmatch(r"([0-9a-f]{4}:){7}[0-9a-f]{4}", gid) else None


def _word(text: str | None) -> str | None:
    """`4: ACTIVE` without its number."""
    return text.partition(": ")[2] or None if text else None


def _rate(text: str | None) -> float | None:
    """`400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)`. The words in brackets say nothing of the link layer."""
    match = re.match(r"([0-9]{1,6}(?:\.[0-9])?) Gb/sec", text or "")
    return float(match[1]) if match else None


def _hexadecimal(text: str | None) -> int | None:
    return int(text, 16) if text and re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else None


def _read(path: str) -> str | None:
    """The content on one line; None for a missing, unreadable or empty file."""
    try:
        with open(path, "rb") as file:
            return one_line(file.read(READ_LIMIT).decode("utf-8", "replace")) or None
    except OSError:
        return None


def _link(path: str) -> str | None:
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return None


def _names(path: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(path), key=natural_key))
    except OSError:
        return ()
