"""What a node runs to Prometheus's text format, version 0.0.4: for node_exporter's textfile collector, and for scrapes.

The same node gives the same bytes: families and samples stand in a fixed order, and what is not known has no sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.model.spec import model_of
from llmgw_reconcile.plan.actions import ActionKind

CHANGES = (ActionKind.START, ActionKind.STOP, ActionKind.REPLACE, ActionKind.ADOPT, ActionKind.UPDATE)

Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """One metric with all its samples; `kind` is gauge or counter."""

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]
    kind: str = "gauge"


class LastApply(NamedTuple):
    """The state that was applied last; what is not known is None."""

    at: str  # UTC, RFC 3339
    file: str
    commit: str | None = None
    ok: bool | None = None  # whether all of it could be done; None while it is carried out, or when it was broken off


class NodeReport(NamedTuple):
    """All that there is to tell of a node."""

    node: str
    version: str  # of llmgw
    observed: ObservedState
    inventory: Inventory
    pending: Mapping[ActionKind, int] | None = None  # what an apply would do now; None: not known
    last_apply: LastApply | None = None


def prometheus_text(families: Iterable[Family]) -> str:
    """The families that have samples, each with its HELP and TYPE."""
    return "".join(line for family in families if family.samples for line in _lines(family))


def node_families(report: NodeReport) -> tuple[Family, ...]:
    """The metrics of a node."""
    return (
        Family("llmgw_info", "The llmgw that tells this.", (_sample(1, node=report.node, version=report.version),)),
        *_engine_families(report.observed.engines),
        Family(
            "llmgw_records_readable",
            "Whether the records of all engines could be read.",
            (_sample(report.observed.readable),),
        ),
        *_gpu_families(report.inventory),
        *_pending_families(report.pending),
        *_apply_families(report.last_apply),
    )


def _engine_families(engines: Sequence[ObservedEngine]) -> Iterator[Family]:
    ready = [engine for engine in engines if engine.phase is Phase.READY]
    yield Family(
        "llmgw_engine_phase",
        "1 for the phase that the engine is in, 0 for the others.",
        tuple(_of(engine, engine.phase is phase, phase=str(phase)) for engine in engines for phase in Phase),
    )
    yield Family(
        "llmgw_engine_ready_timestamp_seconds",
        "Since when a ready engine has been ready.",
        tuple(_of(engine, at) for engine in ready if (at := _seconds(engine.since)) is not None),
    )
    yield Family(
        "llmgw_engine_load_seconds",
        "How long the engine took to get ready, from the start of its process.",
        tuple(_of(engine, engine.load_seconds) for engine in engines if engine.load_seconds is not None),
    )
    yield Family(
        "llmgw_engine_restarts",
        "Restarts after crashes, in a row; 0 again once the engine has served for a while.",
        tuple(_of(engine, engine.restarts) for engine in engines),
    )


def _gpu_families(inventory: Inventory) -> Iterator[Family]:
    yield Family(
        "llmgw_gpus_known",
        "Whether the GPUs could be read; if not, there are no samples of them.",
        (_sample(inventory.gpus_known),),
    )
    yield Family(
        "llmgw_gpu_healthy",
        "Whether nothing speaks against placing an engine on the GPU, memory held by others included.",
        tuple(
            _sample(
                gpu.is_healthy,
                gpu="" if gpu.index is None else str(gpu.index),
                uuid=gpu.uuid or "",
                pci=gpu.pci_bus_id or "",
                **{"class": gpu.gpu_class},
            )
            for gpu in (inventory.gpus if inventory.gpus_known else ())
        ),
    )


def _pending_families(pending: Mapping[ActionKind, int] | None) -> Iterator[Family]:
    if pending is None:
        return
    yield Family(
        "llmgw_pending_changes",
        "Engines that an apply of the state applied last would change now.",
        tuple(_sample(pending.get(kind, 0), action=str(kind)) for kind in CHANGES),
    )
    yield Family(
        "llmgw_blocked_engines",
        "Engines that the state applied last asks for, and that this node cannot host now.",
        (_sample(pending.get(ActionKind.BLOCKED, 0)),),
    )


def _apply_families(last: LastApply | None) -> Iterator[Family]:
    if last is None:
        return
    at = _seconds(last.at)
    yield Family(
        "llmgw_last_apply_timestamp_seconds", "When a state was applied last.", () if at is None else (((), at),)
    )
    yield Family(
        "llmgw_last_apply_success",
        "Whether all of the last apply could be done.",
        () if last.ok is None else (_sample(last.ok),),
    )
    yield Family(
        "llmgw_last_apply_info",
        "The file that was applied last, and the commit that it came from.",
        (_sample(1, file=last.file, commit=last.commit or ""),),
    )


def _of(engine: ObservedEngine, value: float, **labels: str) -> tuple[Labels, float]:
    return _sample(value, engine=engine.engine, model=model_of(engine.engine), **labels)


def _sample(value: float, **labels: str) -> tuple[Labels, float]:
    return tuple(labels.items()), value


def _lines(family: Family) -> Iterator[str]:
    help_text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {family.name} {help_text}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for labels, value in family.samples:
        inner = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
        yield f"{family.name}{{{inner}}} {_number(value)}\n" if inner else f"{family.name} {_number(value)}\n"


def _escaped(text: str) -> str:
    return neutralise(text).replace("\\", r"\\").replace('"', r"\"")


def _number(value: float) -> str:
    """Whole numbers without a fraction: seconds since the epoch are not to be rounded."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _seconds(at: str | None) -> float | None:
    """Seconds since the epoch; None for a time that is not known, or is none."""
    if at is None:
        return None
    from datetime import datetime  # metrics alone need it

    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return None
