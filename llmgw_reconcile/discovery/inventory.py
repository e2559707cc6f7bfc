"""Turn tools, sysfs and /proc into the inventory of the node: what a scheduler would see.

In two steps, so that the tools run while the caller reads other things.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from llmgw_reconcile.discovery.fabric import choose_fabric
from llmgw_reconcile.discovery.gpu_class import gpu_class
from llmgw_reconcile.discovery.gpu_health import find_problems
from llmgw_reconcile.discovery.holders import find_holder
from llmgw_reconcile.discovery.infiniband import read_numa_node, read_rdma_ports
from llmgw_reconcile.discovery.limits import read_limits
from llmgw_reconcile.discovery.nvidia_cards import Card, GpuProcess
from llmgw_reconcile.discovery.nvidia_smi import NvidiaReport, Queries, end_queries, finish_queries, start_queries
from llmgw_reconcile.model.gpu import Gpu, GpuHealth, Holder, Mig
from llmgw_reconcile.model.inventory import Inventory

EngineOf = Callable[[int], str | None]  # pid -> "M@N" of the engine that the process belongs to


class PendingInventory:
    """An inventory whose tools run. Leave it by `finish`, or as a context manager, which ends them in any case."""

    def __init__(
        self, *, node: str, sys_root: str, proc_root: str, queries: Queries | None, held_above_mb: int
    ) -> None:
        self._node = node
        self._sys_root = sys_root
        self._proc_root = proc_root
        self._queries = queries
        self._held_above_mb = held_above_mb

    def finish(self, engine_of: EngineOf) -> Inventory:
        """Read adapters and limits, wait for the tools, and put all together.

        `engine_of` tells which processes on the GPUs are ours. Never raises for a broken node: an ERROR among the
        problems says that the GPUs are not known.
        """
        ports, fabric = choose_fabric(read_rdma_ports(self._sys_root))
        limits = read_limits(proc_root=self._proc_root)
        report = finish_queries(self._queries) if self._queries else NvidiaReport(is_present=False)
        gpus = tuple(self._gpu(card, report, engine_of) for card in report.cards)
        return Inventory(
            node=self._node,
            source="nvidia-smi" if report.is_present else "none",
            driver_version=next((gpu.driver_version for gpu in gpus if gpu.driver_version), None),
            cuda_version=report.cuda_version,
            gpus=gpus,
            hcas=ports,
            fabric=fabric,
            limits=limits,
            problems=report.problems,
        )

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

    def _gpu(self, card: Card, report: NvidiaReport, engine_of: EngineOf) -> Gpu:
        holders = self._holders(card, report.processes, engine_of)
        problems = find_problems(card, holders, held_above_mb=self._held_above_mb)
        return Gpu(
            index=card.index,
            uuid=card.uuid,
            name=card.name,
            gpu_class=gpu_class(card.name, card.memory_total_mb),
            memory_total_mb=card.memory_total_mb,
            memory_used_mb=card.memory_used_mb,
            compute_capability=card.compute_capability,
            numa_node=self._numa_node(card.pci_bus_id),
            pci_bus_id=card.pci_bus_id,
            driver_version=card.driver_version,
            cuda_version=report.cuda_version,
            mig=None if card.mig_enabled is None else Mig(enabled=card.mig_enabled),
            health=GpuHealth(card.ecc_errors, card.temperature_c, problems),
            holders=holders or (),
        )

    def _holders(
        self, card: Card, processes: Sequence[GpuProcess] | None, engine_of: EngineOf
    ) -> tuple[Holder, ...] | None:
        if processes is None:
            return None
        return tuple(find_holder(p, engine_of, self._proc_root) for p in processes if p.uuid == card.uuid)

    def _numa_node(self, pci_bus_id: str | None) -> int | None:
        """sysfs writes the domain with at least four digits, the driver with eight."""
        address = re.fullmatch(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", (pci_bus_id or "").lower())
        if address is None:
            return None
        return read_numa_node(f"{self._sys_root}/bus/pci/devices/{int(address[1], 16):04x}:{address[2]}")


def begin_inventory(
    *,
    node: str,
    sys_root: str,
    with_versions: bool,
    held_above_mb: int,
    with_gpus: bool = True,
    proc_root: str = "/proc",
) -> PendingInventory:
    """Start nvidia-smi: two calls side by side, three with the CUDA version, none without GPUs.

    `sys_root` stands for /sys and `proc_root` for /proc; `held_above_mb` is the state file's `node.held_above_mb`.
    """
    queries = start_queries(with_versions=with_versions) if with_gpus else None
    return PendingInventory(
        node=node, sys_root=sys_root, proc_root=proc_root, queries=queries, held_above_mb=held_above_mb
    )
