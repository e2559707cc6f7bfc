"""Turn the matrix of nvidia-smi and the PCI tree of sysfs into how cards and adapters are connected.

The matrix knows NVLink, sysfs the PCIe way behind it; where both tell the PCIe way, the matrix is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.nvidia_cards import Card
from llmgw_reconcile.discovery.pci import device_folder, numa_node, pci_path, pcie_link
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.gpu import AdapterLink, GpuLink, PcieLink

DISTANCE = {link: distance for distance, link in enumerate(PcieLink)}
LARGEST_NODE = 64  # cards; of more than any board holds nothing is worked out


class Matrix(NamedTuple):
    """What `nvidia-smi topo -m` tells; a pair that is missing is not known. Pairs of cards are there in both orders."""

    nvlinks: Mapping[tuple[int, int], int]  # number of NVLinks, 0: none
    pcie: Mapping[tuple[int, int], PcieLink]  # for two cards without NVLink: others hide their PCIe way
    adapters: Mapping[tuple[int, str], PcieLink]  # (card, RDMA device)
    numa: Mapping[int, int]  # card -> NUMA node of its processors


NO_MATRIX = Matrix({}, {}, {}, {})


class Topology(NamedTuple):
    """Cards by index, adapters by device; None: not known."""

    numa: Mapping[int, int | None]
    links: Mapping[int, tuple[GpuLink, ...] | None]  # to every other card
    adapters: Mapping[int, tuple[AdapterLink, ...] | None]  # the nearest ones
    near_gpus: Mapping[str, tuple[int, ...] | None]  # of an adapter: the cards that share a PCIe switch with it
    nvlink_domains: tuple[tuple[int, ...], ...] | None

    def nvlink_peers(self, index: int) -> tuple[int, ...] | None:
        """The cards that one has NVLinks to; None where that is not known of every other one."""
        links = self.links.get(index)
        if links is None or any(link.nvlinks is None for link in links):
            return None
        return tuple(link.gpu for link in links if link.nvlinks)


class Seat(NamedTuple):
    """Where a device sits."""

    path: tuple[str, ...]  # of PCI bridges; empty when sysfs does not tell
    numa: int | None


def find_seats(cards: Iterable[Card], sys: Tree) -> Topology:
    """Where the cards sit, and nothing of how they are connected: for whoever places no group."""
    numa = {card.index: numa_node(sys, device_folder(card.pci_bus_id)) for card in cards if card.index is not None}
    return Topology(numa, {}, {}, {}, None)


def find_topology(cards: Iterable[Card], devices: Iterable[str], matrix: Matrix | None, sys: Tree) -> Topology:
    """How the cards that have an index and the RDMA devices are connected; `matrix` None: it could not be read."""
    told = matrix or NO_MATRIX
    gpus = {card.index: _card_seat(card, told, sys) for card in cards if card.index is not None}
    if len(gpus) > LARGEST_NODE:
        gpus = {}
    nics = {device: _seat(sys, f"class/infiniband/{device}/device") for device in devices}
    links = {index: _links(index, gpus, told, is_told=matrix is not None) for index in gpus}
    ways = {
        (index, device): told.adapters.get((index, device)) or _way(gpu, nic)
        for index, gpu in gpus.items()
        for device, nic in nics.items()
    }
    return Topology(
        numa={index: seat.numa for index, seat in gpus.items()},
        links=links,
        adapters={index: _nearest({device: ways[index, device] for device in nics}) for index in gpus},
        near_gpus={device: _near({index: ways[index, device] for index in gpus}) for device in nics},
        nvlink_domains=_domains(links),
    )


def _card_seat(card: Card, told: Matrix, sys: Tree) -> Seat:
    seat = _seat(sys, device_folder(card.pci_bus_id))
    return seat._replace(numa=told.numa.get(card.index or 0)) if seat.numa is None else seat


def _seat(sys: Tree, folder: str | None) -> Seat:
    return Seat(pci_path(sys, folder), numa_node(sys, folder))


def _way(one: Seat, other: Seat) -> PcieLink | None:
    return pcie_link(one.path, other.path, (one.numa, other.numa))


def _links(index: int, gpus: Mapping[int, Seat], told: Matrix, *, is_told: bool) -> tuple[GpuLink, ...] | None:
    links = tuple(
        GpuLink(other, told.nvlinks.get((index, other)), told.pcie.get((index, other)) or _way(gpus[index], seat))
        for other, seat in gpus.items()
        if other != index
    )
    is_known = is_told or any(link.pcie for link in links)
    return links if is_known else None


def _nearest(ways: Mapping[str, PcieLink | None]) -> tuple[AdapterLink, ...] | None:
    known = [AdapterLink(device, way) for device, way in ways.items() if way is not None]
    if ways and not known:
        return None
    shortest = min((DISTANCE[link.pcie] for link in known), default=0)
    return tuple(link for link in known if DISTANCE[link.pcie] == shortest)


def _near(ways: Mapping[int, PcieLink | None]) -> tuple[int, ...] | None:
    near = tuple(index for index, way in ways.items() if way is not None and way.is_near)
    return near if near or (ways and None not in ways.values()) else None


def _domains(links: Mapping[int, tuple[GpuLink, ...] | None]) -> tuple[tuple[int, ...], ...] | None:
    peers: dict[int, set[int]] = {}
    for index, others in links.items():
        if others is None or any(link.nvlinks is None for link in others):
            return None
        peers[index] = {link.gpu for link in others if link.nvlinks}
    return cliques(peers)


def cliques(peers: Mapping[int, set[int]]) -> tuple[tuple[int, ...], ...]:
    """Groups of two and more in which each is a peer of each, no one in two of them, the largest first found.

    A chain of links is no group: what its ends say to each other takes another way. Grown from each member in turn by
    the lowest numbers, which finds the largest groups of all boards that are built.

    >>> cliques({0: {1, 2}, 1: {0, 2}, 2: {0, 1, 3}, 3: {2}})
    ((0, 1, 2),)
    """
    left, found = set(peers), []
    while left:
        best = max((_grown(start, peers, left) for start in sorted(left)), key=len)
        if len(best) < 2:
            break
        found.append(best)
        left -= set(best)
    return tuple(sorted(found))


def _grown(start: int, peers: Mapping[int, set[int]], left: set[int]) -> tuple[int, ...]:
    members: list[int] = [start]
    for other in sorted(peers[start] & left):
        if all(other in peers[member] for member in members):
            members.append(other)
    return tuple(sorted(members))
