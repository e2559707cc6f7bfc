"""What discovery found on a node to tables for people: cards by NVLink domain and NUMA node, adapters, limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from llmgw_reconcile.model.gpu import Gpu, Holder, HolderKind, MigSlice
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.rdma import Fabric, RdmaPort
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.render.diagnostics import diagnostics_text
from llmgw_reconcile.render.terminal import INDENT, Paint, Style, columns, painter, wrapped

UNKNOWN = "-"
UNLIMITED = -1
_GPU_HEADINGS = ("GPU", "CLASS", "CAP", "USED/MIB", "TOTAL/MIB", "TEMP", "PCI ADDRESS", "CONDITION")
_PORT_HEADINGS = ("PORT", "KIND", "STATE", "GB/S", "NUMA", "NETDEV", "NEAR GPU", "FABRIC")
_CONDITIONS = {"fit": Style.GOOD, "in use": Style.NOTE, "left over": Style.CHANGE, "unfit": Style.BAD}


def inventory_text(inventory: Inventory, *, width: int | None = None, color: bool = False) -> str:
    """A table of the cards, one of the RDMA ports, the limits, and what is wrong; problems in words below their row.

    `width` None: not wrapped.
    """
    paint = painter(color=color)
    parts = [
        _lines(wrapped(_summary(inventory), width=width)),
        _lines(_gpu_table(inventory, width, paint)),
        _lines(_fabric(inventory.fabric, width)) + _lines(_port_table(inventory.hcas, width, paint)),
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


def _gpu_table(inventory: Inventory, width: int | None, paint: Paint) -> Iterator[str]:
    """The cards in their order; a heading of its own for each group, where there is more to say than one group."""
    if not inventory.gpus:
        return
    heading, *lines = columns([_GPU_HEADINGS, *map(_gpu_cells, inventory.gpus)])
    yield paint(heading, Style.STRONG)
    rows = list(zip(inventory.gpus, lines, strict=True))
    groups = [(words, list(group)) for words, group in groupby(rows, lambda row: _group(row[0], inventory))]
    for words, group in groups:
        if len(groups) > 1 or "NVLink" in words:
            yield paint(words, Style.QUIET)
        for gpu, line in group:
            yield from _gpu_lines(gpu, line, width, paint)


def _group(gpu: Gpu, inventory: Inventory) -> str:
    """`NVLink domain 0-3, NUMA node 0`, as far as that is known."""
    domain = inventory.nvlink_domain_of(gpu.index)
    words = [f"NVLink domain {_ranges(domain)}"] if domain and len(domain) > 1 else []
    if gpu.numa_node is not None:
        words.append(f"NUMA node {gpu.numa_node}")
    return ", ".join(words) or "place not known"


def _gpu_lines(gpu: Gpu, line: str, width: int | None, paint: Paint) -> Iterator[str]:
    condition = _condition(gpu.health.problems, gpu.holders)
    yield line.removesuffix(condition) + paint(condition, _CONDITIONS[condition])
    notes = [*gpu.health.problems, *map(_warning, gpu.health.warnings), *_use(gpu.holders)]
    if gpu.display:
        notes.append("it drives a display")
    for note in notes:
        yield from wrapped(note, width=width, first=" " * INDENT)
    for one in (gpu.mig.slices or ()) if gpu.mig else ():
        yield from _slice_lines(one, width, paint)


def _slice_lines(one: MigSlice, width: int | None, paint: Paint) -> Iterator[str]:
    condition = _condition(one.problems, one.holders)
    memory = f"{_shown(one.memory_used_mb)} of {_shown(one.memory_mb)} MiB used"
    line = f"{' ' * INDENT}{one.gpu_class}  {neutralise(one.uuid)}  {memory}  {condition}"
    yield line.removesuffix(condition) + paint(condition, _CONDITIONS[condition])
    for note in (*one.problems, *_use(one.holders)):
        yield from wrapped(note, width=width, first=" " * (INDENT + 2))


def _warning(words: str) -> str:
    return f"warning: {words}"


def _use(holders: Sequence[Holder]) -> Iterator[str]:
    """What engines of ours hold."""
    for holder in holders:
        if holder.engine is not None:
            amount = "memory" if holder.memory_mb is None else f"{holder.memory_mb} MiB"
            left = ", left over: its leader is dead" if holder.kind is HolderKind.LEFT_OVER else ""
            yield f"{holder.engine}: {amount}, pid {holder.pid}{left}"


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
        _condition(gpu.health.problems, gpu.holders),
    )


def _condition(problems: Sequence[str], holders: Sequence[Holder]) -> str:
    if problems:
        return "unfit"
    kinds = {holder.kind for holder in holders if holder.engine}
    return "left over" if HolderKind.LEFT_OVER in kinds else "in use" if kinds else "fit"


def _fabric(fabric: Fabric, width: int | None) -> list[str]:
    island = "not decided" if fabric.candidates else "none, this node is an island"
    return wrapped(f"Fabric: {fabric.kind or island} ({fabric.reason})", width=width, below=len("Fabric: "))


def _port_table(ports: Sequence[RdmaPort], width: int | None, paint: Paint) -> Iterator[str]:
    if not ports:
        return
    heading, *lines = columns([_PORT_HEADINGS, *map(_port_cells, ports)])
    yield paint(heading, Style.STRONG)
    for port, line in zip(ports, lines, strict=True):
        yield line if port.usable else paint(line, Style.QUIET)
        notes = "; ".join((*port.problems, *_nature(port)))
        if notes:
            yield from wrapped(notes, width=width, first=" " * INDENT)


def _nature(port: RdmaPort) -> Iterator[str]:
    if port.bond and port.bond != port.netdev:
        yield f"part of {port.bond}"
    if port.physical_function:
        yield f"virtual function of {port.physical_function}"
    if port.is_software:
        yield "software RoCE"


def _port_cells(port: RdmaPort) -> tuple[str, ...]:
    return (
        neutralise(port.name),
        str(port.kind),
        _shown(port.state),
        UNKNOWN if port.rate_gbps is None else f"{port.rate_gbps:g}",
        _shown(port.numa_node),
        _shown(port.netdev),
        UNKNOWN if port.near_gpus is None else _ranges(port.near_gpus) or "none",
        "yes" if port.in_fabric else "no",
    )


def _limits(limits: Limits) -> str:
    ports = limits.ephemeral_ports
    shm = f"{_shown(limits.shm_used_mb)} of {_shown(limits.shm_total_mb)} MiB used"
    memlock = f"{_bound(limits.memlock_kb)}{' KiB' if limits.memlock_kb not in (None, UNLIMITED) else ''}"
    persistence = {None: UNKNOWN, True: "on", False: "off"}[limits.persistence_mode]
    return ", ".join(
        (
            f"outgoing ports {UNKNOWN if ports is None else f'{ports[0]}-{ports[1]}'}",
            f"locked memory {memlock}",
            f"open files {_bound(limits.nofile)}",
            f"/dev/shm {shm}",  # noqa: S108 - a name
            f"{_shown(limits.model_cache_free_mb)} MiB free in {limits.model_cache or 'the model cache'}",
            f"IOMMU {_shown(limits.iommu)}",
            f"persistence mode {persistence}",
            f"kernel {_shown(limits.kernel)}",
        )
    )


def _bound(number: int | None) -> str:
    return "unlimited" if number == UNLIMITED else _shown(number)


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3,6`.

    >>> _ranges((0, 1, 2, 3, 6, 8, 9))
    '0-3,6,8,9'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def _shown(value: str | int | None) -> str:
    return UNKNOWN if value is None else neutralise(str(value))
