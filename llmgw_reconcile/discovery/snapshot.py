"""Read a snapshot document back into the inventory and the observed state that it recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.gpu import AdapterLink, Gpu, GpuHealth, GpuLink, Holder, HolderKind, Mig, MigSlice, PcieLink
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.observed import LastExit, ObservedEngine, ObservedState, Phase, ProcessId
from llmgw_reconcile.model.rdma import Fabric, Gid, RdmaKind, RdmaPort

Value = TypeVar("Value")

UNKNOWN_TICKS = 0  # a snapshot names pids for people; nothing is ever signalled on its account


def world_of(document: dict[str, Any]) -> tuple[Inventory, ObservedState]:
    """Inventory and observed state of a document that fits schemas/snapshot.schema.json.

    Raises KeyError, TypeError or ValueError for parts that fit the schema and are none of ours all the same.
    """
    engines = {engine["engine"]: engine for engine in document["status"]["engines"]}
    observed = tuple(_engine(engines[name], document["engines"][name]) for name in sorted(engines))
    return inventory_of(document["inventory"]), ObservedState(engines=observed)


def inventory_of(found: dict[str, Any]) -> Inventory:
    """The inventory of a document that fits schemas/inventory.schema.json; raises as `world_of` does."""
    return Inventory(
        node=found["node"],
        source=found["source"],
        driver_version=found["driver_version"],
        cuda_version=found["cuda_version"],
        gpus=tuple(_gpu(gpu) for gpu in found["gpus"]),
        hcas=tuple(_port(port) for port in found["hcas"]),
        fabric=_fabric(found["fabric"]),
        limits=_limits(found["limits"]),
        problems=tuple(_diagnostic(problem) for problem in found["problems"]),
        nvlink_domains=_each(tuple, found.get("nvlink_domains")),
    )


def _gpu(found: dict[str, Any]) -> Gpu:
    known = {name: found[name] for name in Gpu._fields if name in found}
    mig, health = found["mig"], found["health"]
    return Gpu(
        **known
        | {
            "gpu_class": found["class"],
            "nvlink_peers": _each(int, found["nvlink_peers"]),
            "mig": None if mig is None else Mig(mig["enabled"], _each(_slice, mig["slices"])),
            "health": GpuHealth(**health | {name: _words(health, name) for name in ("problems", "warnings")}),
            "holders": tuple(map(_holder, found["holders"])),
            "links": _each(_gpu_link, found.get("links")),
            "adapters": _each(_adapter_link, found.get("adapters")),
        }
    )


def _slice(found: dict[str, Any]) -> MigSlice:
    known = {name: found[name] for name in MigSlice._fields if name in found}
    return MigSlice(
        **known
        | {
            "gpu_class": found.get("class", "unknown"),
            "problems": _words(found, "problems"),
            "holders": tuple(map(_holder, found.get("holders", ()))),
        }
    )


def _holder(found: dict[str, Any]) -> Holder:
    return Holder(**found | {"kind": HolderKind(found.get("kind", HolderKind.FOREIGN))})


def _gpu_link(found: dict[str, Any]) -> GpuLink:
    return GpuLink(found["gpu"], found["nvlinks"], None if found["pcie"] is None else PcieLink(found["pcie"]))


def _adapter_link(found: dict[str, Any]) -> AdapterLink:
    return AdapterLink(found["device"], PcieLink(found["pcie"]))


def _port(found: dict[str, Any]) -> RdmaPort:
    known = {name: found[name] for name in RdmaPort._fields if name in found}
    return RdmaPort(
        **known
        | {
            "kind": RdmaKind(found["kind"]),
            "problems": _words(found, "problems"),
            "gids": tuple(Gid(**gid) for gid in found.get("gids", ())),
            "pkeys": _words(found, "pkeys"),
            "near_gpus": _each(int, found.get("near_gpus")),
        }
    )


def _fabric(found: dict[str, Any]) -> Fabric:
    kind = found["kind"]
    candidates = tuple(map(tuple, found.get("candidates", ())))
    return Fabric(None if kind is None else RdmaKind(kind), tuple(found["ports"]), found["reason"], candidates)


def _words(found: dict[str, Any], name: str) -> tuple[str, ...]:
    """Empty where an older llmgw recorded none."""
    return tuple(found.get(name, ()))


def _each(build: Callable[[Any], Value], found: list[Any] | None) -> tuple[Value, ...] | None:
    return None if found is None else tuple(map(build, found))


def _limits(found: dict[str, Any]) -> Limits:
    ports = found.get("ephemeral_ports")
    known = {name: found[name] for name in Limits._fields if name in found}
    return Limits(**known | {"ephemeral_ports": None if ports is None else (int(ports[0]), int(ports[1]))})


def _diagnostic(found: dict[str, Any]) -> Diagnostic:
    return Diagnostic(Severity(found["severity"]), found["code"], found["where"], found["message"], found["hint"])


def _engine(status: dict[str, Any], records: dict[str, Any]) -> ObservedEngine:
    pid, launch = status["pid"], records["launch"]
    live = None if pid is None else ProcessId(pid, UNKNOWN_TICKS)
    return ObservedEngine(
        engine=status["engine"],
        phase=Phase(status["phase"]),
        live=live,
        supervisor=ProcessId(0, UNKNOWN_TICKS) if records["supervised"] else None,
        leftovers=tuple(ProcessId(left, UNKNOWN_TICKS) for left in records["leftovers"]),
        port=status["port"],
        host=None if launch is None else launch.get("host"),
        gpus=tuple(status["gpus"]),
        served=tuple(status["served"]),
        since=status["since"],
        restarts=status["restarts"],
        last_exit=LastExit(**status["last_exit"]),
        spec=records["spec"],
        bookkeeping=records["bookkeeping"],
        launch=launch,
    )
