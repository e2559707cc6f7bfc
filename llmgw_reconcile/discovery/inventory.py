"""Turn tools, sysfs and /proc into the inventory of the node: what a scheduler would see.

In two steps, so that the tools run while the caller reads other things.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from llmgw_reconcile.discovery.gpus import Join
from llmgw_reconcile.discovery.limits import iommu_mode, read_limits
from llmgw_reconcile.discovery.nvidia_cards import Card
from llmgw_reconcile.discovery.nvidia_faults import not_installed
from llmgw_reconcile.discovery.nvidia_smi import (
    NvidiaReport,
    Queries,
    add_queries,
    end_queries,
    finish_queries,
    start_queries,
)
from llmgw_reconcile.discovery.owners import owners_of
from llmgw_reconcile.discovery.pci import ADDRESS
from llmgw_reconcile.discovery.topology import find_seats, find_topology
from llmgw_reconcile.errors import Diagnostic
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.observed import ObservedState
from llmgw_reconcile.model.rdma import RdmaPort

REAL_SYS, REAL_DEV = "/sys", "/dev"
DRIVER = "bus/pci/drivers/nvidia"


class PendingInventory:
    """An inventory whose tools run. Leave it by `finish`, or as a context manager, which ends them in any case."""

    def __init__(
        self, *, node: str, sys: Tree, proc_root: str, queries: Queries | None, held_above_mb: int, with_fabric: bool
    ) -> None:
        self._node = node
        self._sys = sys
        self._proc_root = proc_root
        self._queries = queries
        self._held_above_mb = held_above_mb
        self._with_fabric = with_fabric
        self.report = NvidiaReport(is_present=False)  # what the tool said, after `finish`

    def ask_for(self, *, topology: bool = False, slices: bool = False) -> None:
        """Ask for more, before `finish`: for whoever learns late that a group, or a slice, is to be placed."""
        if self._queries:
            self._queries = add_queries(self._queries, topology=topology, slices=slices)

    def finish(self, observed: ObservedState) -> Inventory:
        """Read adapters and limits, wait for the tools, and put all together.

        `observed` tells which processes on the GPUs are ours. Never raises for a broken node: an ERROR among the
        problems says that the GPUs are not known.
        """
        owners = owners_of(observed, self._proc_root)
        ports = self._ports()
        if self._queries:
            self.report = finish_queries(self._queries)
        report = self.report
        devices = dict.fromkeys(port.device for port in ports)
        if devices or (self._queries and self._queries.topology):
            topology = find_topology(report.cards, devices, report.topology, self._sys)
        else:
            topology = find_seats(report.cards, self._sys)
        gpus = Join(report, owners, topology, self._held_above_mb).gpus()
        ports = tuple(port._replace(near_gpus=topology.near_gpus.get(port.device)) for port in ports)
        inventory = Inventory(
            node=self._node,
            source="nvidia-smi" if report.is_present else "none",
            driver_version=next((gpu.driver_version for gpu in gpus if gpu.driver_version), None),
            cuda_version=report.cuda_version,
            gpus=gpus,
            hcas=ports,
            limits=self._limits(report.cards),
            problems=report.problems if report.is_present else self._missing_tool(),
            nvlink_domains=topology.nvlink_domains,
        )
        return self._with_chosen_fabric(inventory) if self._with_fabric else inventory

    def close(self) -> None:
        """End the tools, if they still run."""
        if self._queries:
            end_queries(self._queries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _is_here(self) -> bool:
        """Whether sysfs is this machine's: of another one, routes, mounts and device files here say nothing."""
        return self._sys.root == REAL_SYS

    def _ports(self) -> tuple[RdmaPort, ...]:
        if not self._with_fabric:
            return ()
        from llmgw_reconcile.discovery.infiniband import read_rdma_ports

        return read_rdma_ports(self._sys, REAL_DEV if self._is_here else None)

    def _limits(self, cards: Sequence[Card]) -> Limits:
        """Those of the machine, and those that have to do with its cards."""
        modes = {card.persistence_mode for card in cards}
        return read_limits(proc_root=self._proc_root)._replace(
            iommu=iommu_mode(self._sys, (card.pci_bus_id for card in cards)),
            persistence_mode=None if not modes or None in modes else modes == {True},
        )

    def _missing_tool(self) -> tuple[Diagnostic, ...]:
        """Without the tool a node has no GPUs, unless the driver has taken some: then they are not known."""
        if self._queries is None:
            return ()
        cards = [name for name in self._sys.names(DRIVER) or () if ADDRESS.fullmatch(name)]
        return (not_installed(cards),) if cards else ()

    def _with_chosen_fabric(self, inventory: Inventory) -> Inventory:
        from llmgw_reconcile.discovery.fabric import Evidence, choose_fabric
        from llmgw_reconcile.discovery.networks import Services, read_services

        count = sum(gpu.index is not None for gpu in inventory.gpus) if inventory.gpus_known else None
        services = read_services(Tree(self._proc_root)) if self._is_here and inventory.hcas else Services()
        ports, fabric = choose_fabric(inventory.hcas, Evidence(count, services))
        return inventory._replace(hcas=ports, fabric=fabric)


def begin_inventory(
    *,
    node: str,
    sys_root: str,
    held_above_mb: int,
    with_gpus: bool = True,
    with_versions: bool = False,
    with_topology: bool = False,
    with_slices: bool = False,
    with_fabric: bool = True,
    proc_root: str = "/proc",
) -> PendingInventory:
    """Start nvidia-smi: two calls side by side, which is all that a plan needs that places nothing; none without GPUs.

    `with_versions` adds the CUDA version, `with_topology` how the cards are connected (both a call), `with_slices` what
    cards in MIG mode are split into (two calls where there are such cards), `with_fabric` the RDMA adapters (no call).
    `sys_root` stands for /sys and `proc_root` for /proc; `held_above_mb` is the state file's `node.held_above_mb`.
    """
    wanted = {"with_versions": with_versions, "with_topology": with_topology, "with_slices": with_slices}
    return PendingInventory(
        node=node,
        sys=Tree(sys_root),
        proc_root=proc_root,
        queries=start_queries(**wanted) if with_gpus else None,
        held_above_mb=held_above_mb,
        with_fabric=with_fabric,
    )
