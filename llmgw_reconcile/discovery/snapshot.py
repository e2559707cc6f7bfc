"""Read a snapshot document back into the inventory and the observed state that it recorded."""

from __future__ import annotations

from typing import Any

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.gpu import Gpu, GpuHealth, Holder, Mig, MigSlice
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.observed import LastExit, ObservedEngine, ObservedState, Phase, ProcessId
from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort

UNKNOWN_TICKS = 0  # a snapshot names pids for people; nothing is ever signalled on its account


def world_of(document: dict[str, Any]) -> tuple[Inventory, ObservedState]:
    """Inventory and observed state of a document that fits schemas/snapshot.schema.json.

    Raises KeyError, TypeError or ValueError for parts that fit the schema and are none of ours all the same.
    """
    found = document["inventory"]
    inventory = Inventory(
        node=found["node"],
        source=found["source"],
        driver_version=found["driver_version"],
        cuda_version=found["cuda_version"],
        gpus=tuple(_gpu(gpu) for gpu in found["gpus"]),
        hcas=tuple(_port(port) for port in found["hcas"]),
        fabric=_fabric(found["fabric"]),
        limits=_limits(found["limits"]),
        problems=tuple(_diagnostic(problem) for problem in found["problems"]),
    )
    engines = {engine["engine"]: engine for engine in document["status"]["engines"]}
    observed = tuple(_engine(engines[name], document["engines"][name]) for name in sorted(engines))
    return inventory, ObservedState(engines=observed)


def _gpu(found: dict[str, Any]) -> Gpu:
    known = {name: found[name] for name in Gpu._fields if name in found}
    mig, health, peers = found["mig"], found["health"], found["nvlink_peers"]
    return Gpu(
        **known
        | {
            "gpu_class": found["class"],
            "nvlink_peers": None if peers is None else tuple(peers),
            "mig": None if mig is None else Mig(mig["enabled"], tuple(MigSlice(**s) for s in mig["slices"])),
            "health": GpuHealth(health["ecc_errors"], health["temperature_c"], tuple(health["problems"])),
            "holders": tuple(Holder(**holder) for holder in found["holders"]),
        }
    )


def _port(found: dict[str, Any]) -> RdmaPort:
    known = {name: found[name] for name in RdmaPort._fields if name in found}
    return RdmaPort(**known | {"kind": RdmaKind(found["kind"]), "problems": tuple(found["problems"])})


def _fabric(found: dict[str, Any]) -> Fabric:
    kind = found["kind"]
    return Fabric(None if kind is None else RdmaKind(kind), tuple(found["ports"]), found["reason"])


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
