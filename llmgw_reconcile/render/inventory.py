"""What discovery found on a node to its JSON document (contract §6) and to tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llmgw_reconcile.model.gpu import Gpu, Mig
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.rdma import RdmaPort
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.render.diagnostics import diagnostic_document, diagnostics_text
from llmgw_reconcile.render.documents import FORMAT_VERSION
from llmgw_reconcile.render.terminal import INDENT, Paint, Style, columns, painter, wrapped

UNKNOWN = "-"
UNLIMITED = -1
_GPU_HEADINGS = ("GPU", "CLASS", "CAP", "USED/MIB", "TOTAL/MIB", "TEMP", "PCI ADDRESS", "CONDITION")
_PORT_HEADINGS = ("PORT", "KIND", "STATE", "GB/S", "NUMA", "NETDEV", "FABRIC")
_CONDITIONS = {"fit": Style.GOOD, "in use": Style.NOTE, "unfit": Style.BAD}


def inventory_document(inventory: Inventory) -> dict[str, Any]:
    """The inventory as JSON values, keys in the order of the contract; unknown is null."""
    return {
        "format_version": FORMAT_VERSION,
        "node": inventory.node,
        "source": inventory.source,
        "driver_version": inventory.driver_version,
        "cuda_version": inventory.cuda_version,
        "gpus": [_gpu_document(gpu) for gpu in inventory.gpus],
        "hcas": [_port_document(port) for port in inventory.hcas],
        "fabric": {
            "kind": inventory.fabric.kind and str(inventory.fabric.kind),
            "ports": list(inventory.fabric.ports),
            "reason": inventory.fabric.reason,
        },
        "limits": _limits_document(inventory.limits),
        "problems": [diagnostic_document(problem) for problem in inventory.problems],
    }


def _gpu_document(gpu: Gpu) -> dict[str, Any]:
    fields = {("class" if name == "gpu_class" else name): value for name, value in gpu._asdict().items()}
    return fields | {
        "nvlink_peers": None if gpu.nvlink_peers is None else list(gpu.nvlink_peers),
        "mig": None if gpu.mig is None else _mig_document(gpu.mig),
        "health": gpu.health._asdict() | {"problems": list(gpu.health.problems)},
        "holders": [holder._asdict() for holder in gpu.holders],
    }


def _mig_document(mig: Mig) -> dict[str, Any]:
    return {"enabled": mig.enabled, "slices": [one._asdict() for one in mig.slices]}


def _port_document(port: RdmaPort) -> dict[str, Any]:
    return port._asdict() | {"kind": str(port.kind), "problems": list(port.problems)}


def _limits_document(limits: Limits) -> dict[str, Any]:
    ports = limits.ephemeral_ports
    return limits._asdict() | {"ephemeral_ports": None if ports is None else list(ports)}


def inventory_text(inventory: Inventory, *, width: int | None = None, color: bool = False) -> str:
    """A table of the cards, one of the RDMA ports, the limits, and what is wrong; problems in words below their row.

    `width` None: not wrapped.
    """
    paint = painter(color=color)
    parts = [
        _lines(wrapped(_summary(inventory), width=width)),
        _lines(_gpu_table(inventory.gpus, width, paint)),
        _lines(_fabric(inventory, width)) + _lines(_port_table(inventory.hcas, width, paint)),
        _lines(wrapped(f"Limits: {_limits(inventory.limits)}", width=width, below=len("Limits: "))),
        diagnostics_text(inventory.problems, width=width, color=color),
    ]
    return "\n".join(filter(None, parts))


def _lines(lines: Iterator[str] | Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _summary(inventory: Inventory) -> str:
    if not inventory.gpus_known:
        count = "the GPUs are not known"
    elif inventory.source == "none":
        count = "no GPUs (there is no nvidia-smi)"
    else:
        count = f"{len(inventory.gpus)} GPU{'s' if len(inventory.gpus) != 1 else ''}"
    driver = f", driver {inventory.driver_version}" if inventory.driver_version else ""
    cuda = f", CUDA {inventory.cuda_version}" if inventory.cuda_version else ""
    return f"{inventory.node}: {count}{driver}{cuda}"


def _gpu_table(gpus: Sequence[Gpu], width: int | None, paint: Paint) -> Iterator[str]:
    if not gpus:
        return
    heading, *lines = columns([_GPU_HEADINGS, *map(_gpu_cells, gpus)])
    yield paint(heading, Style.STRONG)
    for gpu, line in zip(gpus, lines, strict=True):
        condition = _condition(gpu)
        yield line.removesuffix(condition) + paint(condition, _CONDITIONS[condition])
        for problem in gpu.health.problems:
            yield from wrapped(problem, width=width, first=" " * INDENT)
        for holder in gpu.holders:
            if holder.engine is not None:
                amount = "memory" if holder.memory_mb is None else f"{holder.memory_mb} MiB"
                yield from wrapped(f"{holder.engine}: {amount}, pid {holder.pid}", width=width, first=" " * INDENT)


def _gpu_cells(gpu: Gpu) -> tuple[str, ...]:
    temperature = gpu.health.temperature_c
    return (
        _shown(gpu.index),
        gpu.gpu_class,
        _shown(gpu.compute_capability),
        _shown(gpu.memory_used_mb),
        _shown(gpu.memory_total_mb),
        UNKNOWN if temperature is None else f"{temperature} C",
        _shown(gpu.pci_bus_id),
        _condition(gpu),
    )


def _condition(gpu: Gpu) -> str:
    if not gpu.is_healthy:
        return "unfit"
    return "in use" if any(holder.engine for holder in gpu.holders) else "fit"


def _fabric(inventory: Inventory, width: int | None) -> list[str]:
    kind = inventory.fabric.kind or "none, this node is an island"
    return wrapped(f"Fabric: {kind} ({inventory.fabric.reason})", width=width, below=len("Fabric: "))


def _port_table(ports: Sequence[RdmaPort], width: int | None, paint: Paint) -> Iterator[str]:
    if not ports:
        return
    heading, *lines = columns([_PORT_HEADINGS, *map(_port_cells, ports)])
    yield paint(heading, Style.STRONG)
    for port, line in zip(ports, lines, strict=True):
        yield line if port.usable else paint(line, Style.QUIET)
        if port.problems:
            yield from wrapped("; ".join(port.problems), width=width, first=" " * INDENT)


def _port_cells(port: RdmaPort) -> tuple[str, ...]:
    return (
        neutralise(f"{port.device}:{port.port}"),
        str(port.kind),
        _shown(port.state),
        UNKNOWN if port.rate_gbps is None else f"{port.rate_gbps:g}",
        _shown(port.numa_node),
        _shown(port.netdev),
        "yes" if port.in_fabric else "no",
    )


def _limits(limits: Limits) -> str:
    ports = limits.ephemeral_ports
    shm = f"{_shown(limits.shm_used_mb)} of {_shown(limits.shm_total_mb)} MiB used"
    memlock = f"{_bound(limits.memlock_kb)}{' KiB' if limits.memlock_kb not in (None, UNLIMITED) else ''}"
    return ", ".join(
        (
            f"outgoing ports {UNKNOWN if ports is None else f'{ports[0]}-{ports[1]}'}",
            f"locked memory {memlock}",
            f"open files {_bound(limits.nofile)}",
            f"/dev/shm {shm}",  # noqa: S108 - a name
            f"kernel {_shown(limits.kernel)}",
        )
    )


def _bound(number: int | None) -> str:
    return "unlimited" if number == UNLIMITED else _shown(number)


def _shown(value: str | int | None) -> str:
    return UNKNOWN if value is None else neutralise(str(value))
