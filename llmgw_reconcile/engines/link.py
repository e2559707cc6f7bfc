"""The adapters and interfaces of this node to the ones that a member of a group talks over. No problem is told here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmgw_reconcile.model.desired import FabricChoice, GroupNode
from llmgw_reconcile.model.group import Interface, Link, Network
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.rdma import RdmaKind, RdmaPort

ACTIVE = "ACTIVE"
LOOPBACK = ("127.", "::1")
ROCE_V2 = "RoCE v2"
IPV4_GID = "0000:0000:0000:0000:0000:ffff:"


def link_of(own: GroupNode, choice: FabricChoice, inventory: Inventory, network: Network) -> Link:
    """What this node, `own` in its group, talks over: the adapters of one fabric, and the interface of its address.

    The file's `socket_interface` decides; else it is the interface that holds the address which the node's own name
    stands for. A loopback interface is nobody's link: the others would find themselves.
    """
    ports = chosen_ports(choice, inventory)
    kinds = {port.kind for port in ports}
    kind = kinds.pop() if len(kinds) == 1 else RdmaKind.EFA if has_efa(choice, inventory) else None
    interface, address = _way(own, choice, network)
    return Link(
        kind=kind,
        hcas=tuple(port.name for port in ports) if kind in (RdmaKind.INFINIBAND, RdmaKind.ROCE) else (),
        interface=interface,
        address=address,
        isolated_rails=choice.rails == "isolated",
        gid_index=_gid_index(ports) if kind is RdmaKind.ROCE else None,
    )


def chosen_ports(choice: FabricChoice, inventory: Inventory) -> tuple[RdmaPort, ...]:
    """The ports of the fabric: those that the file names and the node has, or those that discovery chose."""
    if not choice.use_rdma:
        return ()
    if not choice.hcas:
        return tuple(port for port in inventory.hcas if port.name in inventory.fabric.ports)
    named = (port for name in choice.hcas for port in ports_called(name, inventory.hcas))
    return tuple(dict.fromkeys(named))


def ports_called(name: str, ports: Iterable[RdmaPort]) -> tuple[RdmaPort, ...]:
    """The port `mlx5_0:1`, or the active ports of the adapter `mlx5_0`; all of its ports when none is active."""
    if ":" in name:
        return tuple(port for port in ports if port.name == name)
    of_device = tuple(port for port in ports if port.device == name)
    return tuple(port for port in of_device if port.state == ACTIVE) or of_device


def has_efa(choice: FabricChoice, inventory: Inventory) -> bool:
    """Whether the node's fabric is EFA, which NCCL reaches through a plugin of its own."""
    if not choice.use_rdma or choice.hcas or inventory.fabric.kind not in (None, RdmaKind.EFA):
        return False
    return any(port.kind is RdmaKind.EFA and port.state == ACTIVE for port in inventory.hcas)


def is_loopback(address: str) -> bool:
    """Whether only this node itself can reach the address."""
    return address.startswith(LOOPBACK)


def _gid_index(ports: Iterable[RdmaPort]) -> int | None:
    """The index of the RoCE v2 GID with an IPv4 address; None where the ports do not have it at one and the same."""
    firsts = {
        next((gid.index for gid in port.gids if gid.kind == ROCE_V2 and gid.gid.startswith(IPV4_GID)), None)
        for port in ports
    }
    return firsts.pop() if len(firsts) == 1 else None


def _way(own: GroupNode, choice: FabricChoice, network: Network) -> tuple[str | None, str | None]:
    """Interface and address; None where they are not known."""
    of_name = [address for address in (network.resolved or {}).get(own.address, ()) if not is_loopback(address)]
    interfaces = network.interfaces or ()
    if choice.socket_interface is not None:
        chosen = next((one for one in interfaces if one.name == choice.socket_interface), None)
        return choice.socket_interface, None if chosen is None else _address_on(chosen, of_name)
    for address in of_name:
        for interface in interfaces:
            if address in interface.addresses:
                return interface.name, address
    return None, None


def _address_on(interface: Interface, preferred: Sequence[str]) -> str | None:
    """The address that the node's name stands for, where the interface has it; else its first."""
    both = [address for address in preferred if address in interface.addresses]
    return next(iter((*both, *interface.addresses)), None)
