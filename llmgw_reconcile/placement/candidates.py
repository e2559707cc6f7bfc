"""One GPU and one engine to the reasons why the engine cannot have it, and free GPUs to the order they are taken in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.identify import canonical, find_gpu

ACCEPT_HEALTH = "gpu-health:"  # + UUID, in `accept`


class Ledger(NamedTuple):
    """Who has which card, and which cards nobody gets."""

    gpus: tuple[Gpu, ...]  # of the node
    cordoned: frozenset[str]  # UUIDs
    named: Mapping[str, frozenset[str]]  # UUID -> engines that name it in `gpus.ids`
    taken: dict[str, str]  # UUID -> engine

    def available_to(self, spec: EngineSpec) -> tuple[Gpu, ...]:
        """The cards that the engine could be given now, its own included."""
        return tuple(gpu for gpu in self.gpus if not self.why_not(gpu, spec))

    def why_not(self, gpu: Gpu, spec: EngineSpec) -> str:
        """Every reason why the engine cannot have that card; empty when it can."""
        reasons = list(gpu.health.problems) if not _health_accepted(gpu, spec) else []
        if gpu.uuid is None:
            return ", ".join(reasons) or "it has no UUID to name it by"
        if gpu.mig is not None and gpu.mig.enabled:
            reasons.append("in MIG mode, no longer one whole card")
        if gpu.uuid in self.cordoned:
            reasons.append("cordoned by the state file")
        if (holder := self.taken.get(gpu.uuid, spec.engine)) != spec.engine:
            reasons.append(f"given to {holder}")
        if spec.model.gpus.gpu_class not in (None, gpu.gpu_class):
            reasons.append(f"not of class {spec.model.gpus.gpu_class}")
        return ", ".join(reasons)

    def refused_for_health(self, spec: EngineSpec) -> tuple[Gpu, ...]:
        """The cards that the engine could be given if it accepted their health."""
        sick = (gpu for gpu in self.gpus if gpu.uuid and gpu.health.problems and not _is_held(gpu))
        return tuple(gpu for gpu in sick if self.why_not(gpu, spec) == ", ".join(gpu.health.problems))

    def give(self, spec: EngineSpec, gpus: Iterable[Gpu]) -> None:
        """Book these cards for the engine; what it had before is free."""
        for uuid in [uuid for uuid, holder in self.taken.items() if holder == spec.engine]:
            del self.taken[uuid]
        self.taken.update({gpu.uuid: spec.engine for gpu in gpus if gpu.uuid})


def open_ledger(gpus: tuple[Gpu, ...], specs: Iterable[EngineSpec], cordon: Iterable[str]) -> Ledger:
    """The ledger of a node before anything is given out."""
    named: dict[str, frozenset[str]] = {}
    for spec in specs:
        for name in spec.gpu_ids:
            if (gpu := find_gpu(name, gpus)) and gpu.uuid:
                named[gpu.uuid] = named.get(gpu.uuid, frozenset()) | {spec.engine}
    cordoned = (find_gpu(name, gpus) for name in cordon)
    return Ledger(gpus, frozenset(gpu.uuid for gpu in cordoned if gpu and gpu.uuid), named, {})


def order_of_preference(gpus: Iterable[Gpu], spec: EngineSpec, ledger: Ledger) -> tuple[Gpu, ...]:
    """The cards of one class, the first to be taken first: those it has, then in the order of the PCI bus.

    A card that another engine asks for by name, or one whose health had to be accepted, comes last.
    """

    def rank(gpu: Gpu) -> tuple[bool, bool, bool, int, str]:
        uuid = gpu.uuid or ""
        others = ledger.named.get(uuid, frozenset()) - {spec.engine}
        index = len(ledger.gpus) if gpu.index is None else gpu.index
        return ledger.taken.get(uuid) != spec.engine, not gpu.is_healthy, bool(others), index, uuid

    return tuple(sorted(gpus, key=rank))


def by_class(gpus: Iterable[Gpu], own: Collection[str]) -> tuple[tuple[str, tuple[Gpu, ...]], ...]:
    """Class and cards, the class to be taken first: one that it has cards of, the most capable, the largest."""
    classes: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        classes.setdefault(gpu.gpu_class, []).append(gpu)

    def rank(item: tuple[str, list[Gpu]]) -> tuple[bool, int, int, int, str]:
        name, cards = item
        major, minor = max(gpu.capability or (0, 0) for gpu in cards)
        memory = max(gpu.memory_total_mb or 0 for gpu in cards)
        return not any(gpu.uuid in own for gpu in cards), -major, -minor, -memory, name

    return tuple((name, tuple(cards)) for name, cards in sorted(classes.items(), key=rank))


def _health_accepted(gpu: Gpu, spec: EngineSpec) -> bool:
    """Whether the model takes the card as it is. Memory that a stranger holds is a fact, and not to be accepted."""
    accepted = (code.removeprefix(ACCEPT_HEALTH) for code in spec.model.accept if code.startswith(ACCEPT_HEALTH))
    return gpu.uuid is not None and not _is_held(gpu) and canonical(gpu.uuid) in map(canonical, accepted)


def _is_held(gpu: Gpu) -> bool:
    return any(holder.engine is None for holder in gpu.holders)
