"""Join what the driver says of cards, slices and processes with where the cards sit and whose the processes are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from llmgw_reconcile.discovery.gpu_class import gpu_class
from llmgw_reconcile.discovery.gpu_health import find_problems, find_slice_problems, find_warnings, held, unexplained
from llmgw_reconcile.discovery.holders import claimant, find_holder
from llmgw_reconcile.discovery.nvidia_cards import Card, GpuProcess
from llmgw_reconcile.discovery.nvidia_smi import NvidiaReport
from llmgw_reconcile.discovery.owners import Owners
from llmgw_reconcile.discovery.topology import Topology
from llmgw_reconcile.model.gpu import Gpu, GpuHealth, Holder, Mig, MigSlice

if TYPE_CHECKING:
    from llmgw_reconcile.discovery.nvidia_mig import MigDevice


class Join(NamedTuple):
    """What all cards of a node are joined with; `held_above_mb` is the state file's `node.held_above_mb`."""

    report: NvidiaReport
    owners: Owners
    topology: Topology
    held_above_mb: int

    def gpus(self) -> tuple[Gpu, ...]:
        """Every card, in the driver's order, lost ones last."""
        return tuple(map(self._gpu, self.report.cards))

    def _gpu(self, card: Card) -> Gpu:
        holders = self._holders(card)
        problems = find_problems(card, holders, held_above_mb=self.held_above_mb)
        seat = -1 if card.index is None else card.index
        return Gpu(
            index=card.index,
            uuid=card.uuid,
            name=card.name,
            gpu_class=gpu_class(card.name, card.memory_total_mb),
            memory_total_mb=card.memory_total_mb,
            memory_used_mb=card.memory_used_mb,
            compute_capability=card.compute_capability,
            numa_node=self.topology.numa.get(seat),
            pci_bus_id=card.pci_bus_id,
            driver_version=card.driver_version,
            cuda_version=self.report.cuda_version,
            nvlink_peers=self.topology.nvlink_peers(seat),
            mig=self._mig(card),
            health=GpuHealth(card.ecc_errors, card.temperature_c, problems, find_warnings(card)),
            holders=holders or (),
            links=self.topology.links.get(seat),
            adapters=self.topology.adapters.get(seat),
            display=card.display,
        )

    def _processes(self, card: Card) -> Sequence[GpuProcess]:
        return [process for process in self.report.processes or () if process.uuid == card.uuid]

    def _claimants(self, uuid: str | None) -> Iterator[Holder]:
        return (claimant(c, self.owners.proc_root) for c in self.owners.claims if uuid in c.gpus)

    def _holders(self, card: Card) -> tuple[Holder, ...] | None:
        """None: the processes could not be read."""
        if self.report.processes is None:
            return None
        processes = (find_holder(process, self.owners) for process in self._processes(card))
        return (*self._claimants(card.uuid), *processes)

    def _mig(self, card: Card) -> Mig | None:
        if self.report.slices is None:
            return None if card.mig_enabled is None else Mig(card.mig_enabled, None if card.mig_enabled else ())
        devices = [device for device in self.report.slices if device.card == card.uuid]
        if not devices:
            return None if card.mig_enabled is None else Mig(card.mig_enabled)
        return Mig(enabled=True, slices=tuple(self._slice(card, device, devices) for device in devices))

    def _slice(self, card: Card, device: MigDevice, devices: Sequence[MigDevice]) -> MigSlice:
        holders = (*self._claimants(device.uuid), *self._slice_holders(card, device))
        return MigSlice(
            uuid=device.uuid,
            profile=device.profile,
            memory_mb=device.memory_mb,
            gpu_class=gpu_class(f"{card.name or 'unknown'} MIG {device.profile}", device.memory_mb),
            memory_used_mb=device.memory_used_mb,
            problems=tuple(self._slice_problems(card, device, devices, holders)),
            holders=holders,
        )

    def _slice_holders(self, card: Card, device: MigDevice) -> Iterator[Holder]:
        names = {process.pid: process.name for process in self._processes(card)}
        for pid, memory_mb in device.pids:
            yield find_holder(GpuProcess(device.uuid, pid, memory_mb, names.get(pid)), self.owners)

    def _slice_problems(
        self, card: Card, device: MigDevice, devices: Sequence[MigDevice], holders: Sequence[Holder]
    ) -> Iterator[str]:
        yield from find_slice_problems(card)
        if self.report.processes is None:
            yield "the processes of its card could not be read"
        yield from held(holders)
        together = [d for d in devices if d is device or (d.instance is not None and d.instance == device.instance)]
        sharers = [holder for other in together for holder in self._slice_holders(card, other)]
        yield from unexplained(device.memory_used_mb, sharers, self.held_above_mb)
        placed = {pid for other in devices for pid, _ in other.pids}
        for words in held(find_holder(p, self.owners) for p in self._processes(card) if p.pid not in placed):
            yield f"{words}, on its card, on which slice is not known"
