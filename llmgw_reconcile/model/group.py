"""Facts about an engine that runs on several nodes: this node's part in it, and what its members talk over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llmgw_reconcile.model.desired import GroupNode
from llmgw_reconcile.model.rdma import RdmaKind


class Interface(NamedTuple):
    """A network interface of this node."""

    name: str
    addresses: tuple[str, ...] = ()  # IP addresses as text, IPv4 first
    is_running: bool = True  # up, and with a carrier


class Network(NamedTuple):
    """The network as this node sees it. None: not looked at, as when a plan is made elsewhere."""

    interfaces: tuple[Interface, ...] | None = None
    resolved: Mapping[str, tuple[str, ...]] | None = None  # name -> IP addresses; none: it does not resolve


class Link(NamedTuple):
    """What a member of a group talks over on this node."""

    kind: RdmaKind | None = None  # InfiniBand or RoCE; EFA: left to its plugin; None: TCP sockets
    hcas: tuple[str, ...] = ()  # "mlx5_0:1"; empty unless InfiniBand or RoCE
    interface: str | None = None  # over which the nodes find each other; None: not known
    address: str | None = None  # of this node on that interface
    isolated_rails: bool = False  # an adapter reaches only its own counterpart
    gid_index: int | None = None  # of the GID to leave with, the same on each adapter; RoCE only


class Member(NamedTuple):
    """This node's part in an engine over several nodes."""

    rank: int
    size: int  # nodes of the group
    head: str  # name or address of rank 0, the same on every node
    port: int  # of the head, where the ranks meet
    link: Link = Link()

    @property
    def is_head(self) -> bool:
        """Whether the others come to this node, and requests too."""
        return self.rank == 0


def rank_of(nodes: Sequence[GroupNode], names: Sequence[str]) -> int | None:
    """The rank of the node that is called `names` (full host names); None when it is none of `nodes`.

    Without `nodes` an engine runs wherever its state file is applied, as rank 0. A full name counts before a short one.

    >>> rank_of((GroupNode("gpu-07", "gpu-07"), GroupNode("gpu-08", "10.0.0.8")), ["gpu-08.example.org"])
    1
    """
    if not nodes:
        return 0
    full = [name.lower() for name in names]
    for known in (full, [name.partition(".")[0] for name in full]):
        for rank, node in enumerate(nodes):
            if node.name.lower() in known:
                return rank
    return None
