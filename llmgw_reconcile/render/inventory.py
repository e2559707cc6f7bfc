"""What discovery found on a node to its JSON document (contract §6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmgw_reconcile.model.gpu import AdapterLink, Gpu, GpuHealth, GpuLink, Holder, Mig, MigSlice
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.rdma import Fabric, RdmaPort
from llmgw_reconcile.render.diagnostics import diagnostic_document
from llmgw_reconcile.render.documents import FORMAT_VERSION


def inventory_document(inventory: Inventory) -> dict[str, Any]:
    """The inventory as JSON values, keys in the order of the contract; unknown is null."""
    return {
        "format_version": FORMAT_VERSION,
        "node": inventory.node,
        "source": inventory.source,
        "driver_version": inventory.driver_version,
        "cuda_version": inventory.cuda_version,
        "gpus": [_gpu(gpu) for gpu in inventory.gpus],
        "hcas": [_port(port) for port in inventory.hcas],
        "fabric": _fabric(inventory.fabric),
        "limits": _limits(inventory.limits),
        "problems": [diagnostic_document(problem) for problem in inventory.problems],
        "nvlink_domains": None if inventory.nvlink_domains is None else list(map(list, inventory.nvlink_domains)),
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    fields = {("class" if name == "gpu_class" else name): value for name, value in gpu._asdict().items()}
    return fields | {
        "nvlink_peers": _list(gpu.nvlink_peers),
        "mig": None if gpu.mig is None else _mig(gpu.mig),
        "health": _health(gpu.health),
        "holders": [_holder(holder) for holder in gpu.holders],
        "links": None if gpu.links is None else [_gpu_link(link) for link in gpu.links],
        "adapters": None if gpu.adapters is None else [_adapter_link(link) for link in gpu.adapters],
    }


def _mig(mig: Mig) -> dict[str, Any]:
    return {"enabled": mig.enabled, "slices": None if mig.slices is None else [_slice(one) for one in mig.slices]}


def _slice(one: MigSlice) -> dict[str, Any]:
    return {
        "uuid": one.uuid,
        "profile": one.profile,
        "memory_mb": one.memory_mb,
        "class": one.gpu_class,
        "memory_used_mb": one.memory_used_mb,
        "problems": list(one.problems),
        "holders": [_holder(holder) for holder in one.holders],
    }


def _health(health: GpuHealth) -> dict[str, Any]:
    return health._asdict() | {"problems": list(health.problems), "warnings": list(health.warnings)}


def _holder(holder: Holder) -> dict[str, Any]:
    return holder._asdict() | {"kind": str(holder.kind)}


def _gpu_link(link: GpuLink) -> dict[str, Any]:
    return link._asdict() | {"pcie": link.pcie and str(link.pcie)}


def _adapter_link(link: AdapterLink) -> dict[str, Any]:
    return {"device": link.device, "pcie": str(link.pcie)}


def _port(port: RdmaPort) -> dict[str, Any]:
    return port._asdict() | {
        "kind": str(port.kind),
        "problems": list(port.problems),
        "gids": [gid._asdict() for gid in port.gids],
        "pkeys": list(port.pkeys),
        "near_gpus": _list(port.near_gpus),
    }


def _fabric(fabric: Fabric) -> dict[str, Any]:
    return {
        "kind": fabric.kind and str(fabric.kind),
        "ports": list(fabric.ports),
        "reason": fabric.reason,
        "candidates": list(map(list, fabric.candidates)),
    }


def _limits(limits: Limits) -> dict[str, Any]:
    return limits._asdict() | {"ephemeral_ports": _list(limits.ephemeral_ports)}


def _list(values: Sequence[int] | None) -> list[int] | None:
    return None if values is None else list(values)
