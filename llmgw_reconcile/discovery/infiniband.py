"""Turn /sys/class/infiniband into RDMA ports, usable or not and why.

The formats are those of drivers/infiniband/core/sysfs.c. Any file may be missing, or fail when it is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.pci import ADDRESS, numa_node
from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.discovery.rdma_kind import Nature, nature_of
from llmgw_reconcile.discovery.rdma_tables import GidTable, read_gids, read_pkeys
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.rdma import RdmaKind, RdmaPort

CLASS = "class/infiniband"
VERBS_CLASS = "class/infiniband_verbs"
LIDS_OF_NONE = (0, 0xFFFF)  # not assigned by a subnet manager (yet)
PREFIX_LENGTH = len("fe80:0000:0000:0000")


class Device(NamedTuple):
    """What the ports of one adapter have in common."""

    name: str
    nature: Nature
    netdevs: tuple[str, ...]
    numa_node: int | None
    card: str | None
    pci_bus_id: str | None
    physical_function: str | None  # PCI address of the adapter that this one is a virtual function of
    virtual_functions: int
    uverbs: str | None
    verbs_problem: str


def read_rdma_ports(sys: Tree, dev_root: str | None = None) -> tuple[RdmaPort, ...]:
    """Every port of every adapter in natural order; none when the node has no such class.

    `dev_root` is /dev where `sys` is this machine's: then a port is usable only for who may open its device file. An
    absent class directory is no proof of absent hardware: its driver may not be loaded.
    """
    names = sorted(sys.names(CLASS) or (), key=natural_key)
    verbs = _verbs(sys)
    devices = [_device(sys, name, verbs, dev_root) for name in names]
    functions: dict[str | None, str] = {device.pci_bus_id: device.name for device in devices if device.pci_bus_id}
    return tuple(port for device in devices for port in _ports(sys, device, functions))


def natural_key(name: str) -> tuple[object, ...]:
    """Sorts mlx5_2 before mlx5_10, and names that differ in letter case side by side.

    >>> sorted(["mlx5_10", "mlx5_2", "mlx5_bond_0"], key=natural_key)
    ['mlx5_2', 'mlx5_10', 'mlx5_bond_0']
    """
    parts = re.split(r"([0-9]+)", name.lower())  # text and number by turns
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name


def _device(sys: Tree, name: str, verbs: Mapping[str, str] | None, dev_root: str | None) -> Device:
    folder = f"{CLASS}/{name}"
    address = sys.target(f"{folder}/device") or ""
    uverbs = (verbs or {}).get(name)
    return Device(
        name=name,
        nature=nature_of(sys, name),
        netdevs=sys.names(f"{folder}/device/net") or (),
        numa_node=numa_node(sys, f"{folder}/device"),
        card=_line(sys, f"{folder}/sys_image_guid"),
        pci_bus_id=address if ADDRESS.fullmatch(address) else None,
        physical_function=sys.target(f"{folder}/device/physfn"),
        virtual_functions=sum(entry.startswith("virtfn") for entry in sys.names(f"{folder}/device") or ()),
        uverbs=uverbs,
        verbs_problem=_verbs_problem(uverbs, dev_root, is_listed=verbs is not None),
    )


def _verbs(sys: Tree) -> Mapping[str, str] | None:
    """Adapter -> name of its device file; None where the node lists none at all."""
    names = sys.names(VERBS_CLASS)
    if names is None:
        return None
    return {_line(sys, f"{VERBS_CLASS}/{name}/ibdev") or "": name for name in names if name.startswith("uverbs")}


def _verbs_problem(uverbs: str | None, dev_root: str | None, *, is_listed: bool) -> str:
    if uverbs is None:
        return "it has no device file: is the module ib_uverbs loaded?" if is_listed or dev_root else ""
    if dev_root is None or os.access(path := f"{dev_root}/infiniband/{uverbs}", os.R_OK | os.W_OK):
        return ""
    why = "may not be opened by this user" if os.path.exists(path) else "is missing; a container must be given it"
    return f"{path} {why}"


def _ports(sys: Tree, device: Device, functions: Mapping[str | None, str]) -> Iterator[RdmaPort]:
    names = sys.names(f"{CLASS}/{device.name}/ports") or ()
    for number in sorted(int(name) for name in names if re.fullmatch(r"[0-9]{1,3}", name)):
        port, gids = _read_port(sys, device, number)
        problems = tuple(_problems(device, port, gids))
        parent = functions.get(device.physical_function, device.physical_function)
        yield port._replace(usable=not problems, problems=problems, physical_function=parent)


def _read_port(sys: Tree, device: Device, number: int) -> tuple[RdmaPort, GidTable]:
    folder = f"{CLASS}/{device.name}/ports/{number}"
    link_layer = _line(sys, f"{folder}/link_layer")
    kind = device.nature.kind(link_layer)
    gids = read_gids(sys, folder)
    netdev = gids.netdev or (device.netdevs[0] if len(device.netdevs) == 1 else None)
    port = RdmaPort(
        device=device.name,
        port=number,
        kind=kind,
        link_layer=link_layer,
        state=_word(_line(sys, f"{folder}/state")),
        phys_state=_word(_line(sys, f"{folder}/phys_state")),
        rate_gbps=_rate(_line(sys, f"{folder}/rate")),
        lid=_hexadecimal(_line(sys, f"{folder}/lid")),
        sm_lid=_hexadecimal(_line(sys, f"{folder}/sm_lid")),
        subnet_prefix=_subnet_prefix(gids) if kind is RdmaKind.INFINIBAND else None,
        netdev=netdev,
        numa_node=device.numa_node,
        gids=gids.gids,
        pkeys=read_pkeys(sys, folder) if kind is RdmaKind.INFINIBAND else (),  # RoCE has one alone
        bond=_bond(sys, netdev),
        virtual_functions=device.virtual_functions,
        is_software=device.nature.is_software,
        card=device.card,
        pci_bus_id=device.pci_bus_id,
        uverbs=device.uverbs,
    )
    return port, gids


def _problems(device: Device, port: RdmaPort, gids: GidTable) -> Iterator[str]:
    """Why NCCL cannot use the port."""
    if port.kind is RdmaKind.EFA:
        yield "EFA is reached through a plugin of its own"
    elif port.kind is RdmaKind.OTHER:
        why = device.nature.other or port.link_layer or "its link layer is unknown"
        yield f"neither InfiniBand nor RoCE: {why}"
    if port.state != "ACTIVE":
        yield f"its state is {port.state or 'unknown'}"
    if port.phys_state != "LinkUp":
        yield f"its physical state is {port.phys_state or 'unknown'}"
    if port.state == "ACTIVE" and port.kind is RdmaKind.INFINIBAND and (port.lid in LIDS_OF_NONE or port.sm_lid == 0):
        yield "no subnet manager has configured it"
    if port.state == "ACTIVE" and port.kind is RdmaKind.ROCE and (problem := gids.problem()):
        yield problem
    if device.verbs_problem and port.kind in (RdmaKind.INFINIBAND, RdmaKind.ROCE):
        yield device.verbs_problem


def _subnet_prefix(gids: GidTable) -> str | None:
    return next((gid.gid[:PREFIX_LENGTH] for gid in gids.gids if gid.index == 0), None)


def _bond(sys: Tree, netdev: str | None) -> str | None:
    """The bond that an interface belongs to, or is; a bridge is a master too, and no bond."""
    if not netdev:
        return None
    for name in (sys.target(f"class/net/{netdev}/master"), netdev):
        if name and sys.names(f"class/net/{name}/bonding") is not None:
            return name
    return None


def _word(text: str | None) -> str | None:
    """`4: ACTIVE` without its number."""
    return text.partition(": ")[2] or None if text else None


def _rate(text: str | None) -> float | None:
    """`400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)`. The words in brackets say nothing of the link layer."""
    match = re.match(r"([0-9]{1,6}(?:\.[0-9])?) Gb/sec", text or "")
    return float(match[1]) if match else None


def _hexadecimal(text: str | None) -> int | None:
    return int(text, 16) if text and re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) else None


def _line(sys: Tree, name: str) -> str | None:
    """A file's content on one line; None for a missing, unreadable or empty file."""
    return one_line(sys.text(name) or "") or None
