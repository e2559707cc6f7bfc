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
    taken: Mapping[str, str]  # UUID -> engine

    def fit_for(self, spec: EngineSpec) -> tuple[Gpu, ...]:
        """The cards that the engine could be given if nobody had any."""
        return tuple(gpu for gpu in self.gpus if not self._reasons(gpu, spec, ""))

    def named_cards(self, spec: EngineSpec) -> tuple[Gpu, ...]:
        """The cards that `gpus.ids` names, in its order; empty when it cannot have them whoever has them now."""
        cards = [find_gpu(name, self.gpus) for name in spec.gpu_ids]
        found = tuple(card for card in cards if card is not None and not self._reasons(card, spec, ""))
        is_one_group = len(set(found)) == len(cards) and len({card.gpu_class for card in found}) == 1
        return found if is_one_group else ()

    def why_not(self, gpu: Gpu, spec: EngineSpec) -> str:
        """Every reason why the engine cannot have that card; empty when it can."""
        holder = self.taken.get(gpu.uuid or "", spec.engine)
        return ", ".join(self._reasons(gpu, spec, holder if holder != spec.engine else ""))

    def is_named_by_others(self, gpu: Gpu, spec: EngineSpec) -> bool:
        """Whether another engine asks for that very card."""
        return bool(self.named.get(gpu.uuid or "", frozenset()) - {spec.engine})

    def _reasons(self, gpu: Gpu, spec: EngineSpec, holder: str) -> list[str]:
        reasons = list(gpu.health.problems)
        if reasons and _health_accepted(gpu, spec):
            reasons = []
        if gpu.uuid is None:
            return reasons or ["it has no UUID to name it by"]
        if gpu.mig is not None and gpu.mig.enabled:
            reasons.append("in MIG mode, no longer one whole card")
        if gpu.uuid in self.cordoned:
            reasons.append("cordoned by the state file")
        if holder:
            reasons.append(f"given to {holder}")
        if gpu.is_slice and spec.model.gpus_per_replica > 1:
            reasons.append("a MIG slice is for an engine on one GPU")
        elif gpu.is_slice and gpu.gpu_class != spec.model.gpus.gpu_class and gpu.uuid not in spec.gpu_ids:
            reasons.append("a MIG slice is given to whoever asks for it, by class or UUID")
        if spec.model.gpus.gpu_class not in (None, gpu.gpu_class):
            reasons.append(f"not of class {spec.model.gpus.gpu_class}")
        return reasons

    def refused_for_health(self, spec: EngineSpec) -> tuple[Gpu, ...]:
        """The cards that the engine could be given if it accepted their health."""
        sick = (gpu for gpu in self.gpus if gpu.uuid and gpu.health.problems and not _is_held(gpu))
        return tuple(gpu for gpu in sick if self.why_not(gpu, spec) == ", ".join(gpu.health.problems))


def open_ledger(gpus: tuple[Gpu, ...], specs: Iterable[EngineSpec], cordon: Iterable[str]) -> Ledger:
    """The ledger of a node before anything is given out."""
    named: dict[str, frozenset[str]] = {}
    for spec in specs:
        for name in spec.gpu_ids:
            if (gpu := find_gpu(name, gpus)) and gpu.uuid:
                named[gpu.uuid] = named.get(gpu.uuid, frozenset()) | {spec.engine}
    found = (find_gpu(name, gpus) for name in cordon)
    cordoned = frozenset(one.uuid for gpu in found if gpu for one in (gpu, *gpu.parts) if one.uuid)
    return Ledger(gpus, cordoned, named, {})


def order_of_preference(gpus: Iterable[Gpu], spec: EngineSpec, ledger: Ledger, own: Collection[str]) -> tuple[Gpu, ...]:
    """The cards of one class, the first to be taken first: its `own` (UUIDs), then in the order of the PCI bus.

    A card that another engine asks for by name, or one whose health had to be accepted, comes last.
    """

    def rank(gpu: Gpu) -> tuple[bool, bool, bool, int, str]:
        uuid = gpu.uuid or ""
        index = len(ledger.gpus) if gpu.index is None else gpu.index
        return uuid not in own, not gpu.is_healthy, ledger.is_named_by_others(gpu, spec), index, uuid

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
