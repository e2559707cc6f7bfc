"""Engines and the cards that are free to whether all find theirs at once, and to the best cards for each of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.candidates import Ledger, by_class, order_of_preference
from llmgw_reconcile.placement.closeness import cliques_together, closeness, neighbourhood, waste
from llmgw_reconcile.placement.feasible import Demand, all_fit, shares

Uuids = Collection[str]
MOST_TRIES = 500  # sets of engines that are tried for a move; a node whose engines all move at once needs a few dozen


class Search:
    """The questions about `seekers`, which all need GPUs; `held` are the UUIDs that engines have now."""

    def __init__(
        self, seekers: Iterable[EngineSpec], ledger: Ledger, inventory: Inventory, held: Mapping[str, Uuids]
    ) -> None:
        self._ledger, self._inventory, self._held = ledger, inventory, held
        self._named = {spec.engine: ledger.named_cards(spec) for spec in seekers if spec.gpu_ids}
        self._fit = {spec.engine: ledger.fit_for(spec) for spec in seekers if not spec.gpu_ids}
        takers: dict[str, list[str]] = {}
        for engine, cards in self._fit.items():
            for gpu in cards:
                takers.setdefault(gpu.uuid or "", []).append(engine)
        sorts: dict[tuple[str, ...], int] = {}
        classes = {gpu.uuid: gpu.gpu_class for gpu in ledger.gpus}
        self._sorts = {uuid: sorts.setdefault((classes[uuid], *who), len(sorts)) for uuid, who in takers.items()}
        self._demands = {spec.engine: self._demand(spec) for spec in seekers if not spec.gpu_ids}

    def _demand(self, spec: EngineSpec) -> Demand:
        classes: dict[str, set[int]] = {}
        for gpu in self._fit[spec.engine]:
            classes.setdefault(gpu.gpu_class, set()).add(self._sorts[gpu.uuid or ""])
        return Demand(spec.model.gpus_per_replica, tuple(tuple(sorted(sorts)) for sorts in classes.values()))

    def all_fit(self, specs: Sequence[EngineSpec], busy: Uuids, *, to_the_end: bool = False) -> bool:
        """Whether there are cards for all of them besides those that are busy."""
        named = self._named_by(specs)
        if any(self._named.get(spec.engine) == () for spec in specs) or len(set(named)) < len(named):
            return False
        out = {*busy, *named}
        if len(out) < len(named) + len(set(busy)):
            return False
        stock = [0] * len(self._sorts)
        for uuid, sort in self._sorts.items():
            stock[sort] += uuid not in out
        demands = [self._demands[spec.engine] for spec in specs if not spec.gpu_ids]
        return all_fit(demands, tuple(stock), to_the_end=to_the_end)

    def who_moves(self, movers: Sequence[EngineSpec], busy: Uuids) -> tuple[EngineSpec, ...]:
        """Those that get other cards when whoever does not keeps its own: the first ones win when not all can."""
        tries = 0

        def decide(
            ahead: Sequence[EngineSpec], moving: tuple[EngineSpec, ...], out: frozenset[str]
        ) -> tuple[EngineSpec, ...] | None:
            nonlocal tries
            if not self.all_fit(moving, out):
                return None
            if not ahead:
                return moving
            first, *others = ahead
            tries += 1
            moved = decide(others, (*moving, first), out) if tries <= MOST_TRIES else None
            return decide(others, moving, out | set(self._held[first.engine])) if moved is None else moved

        return decide(movers, (), frozenset(busy)) or ()

    def choose(self, specs: Sequence[EngineSpec], busy: Uuids) -> dict[str, tuple[Gpu, ...]]:
        """The cards of each of them, which must all fit: the first one chooses first, and leaves the others enough."""
        chosen: dict[str, tuple[Gpu, ...]] = {}
        out = {*busy, *self._named_by(specs)}
        for position, spec in enumerate(specs):
            others = [other for other in specs[position + 1 :] if not other.gpu_ids]
            chosen[spec.engine] = self._named.get(spec.engine) or self._best(spec, others, out)
            out.update(uuids_of(chosen[spec.engine]))
        return chosen

    def _best(self, spec: EngineSpec, others: Sequence[EngineSpec], busy: Uuids) -> tuple[Gpu, ...]:
        own = self._held.get(spec.engine, ())
        available = [gpu for gpu in self._fit[spec.engine] if gpu.uuid not in busy]
        for to_the_end in (False, True):  # that there is a way is known: where none is found soon, it is looked for
            for _, cards in by_class(available, own):
                for group in self._groups(spec, order_of_preference(cards, spec, self._ledger, own)):
                    if self.all_fit(others, {*busy, *uuids_of(group)}, to_the_end=to_the_end):
                        return cliques_together(group, self._inventory)
        raise AssertionError(f"{spec.engine} was to fit")

    def _groups(self, spec: EngineSpec, preferred: Sequence[Gpu]) -> list[tuple[Gpu, ...]]:
        """The groups of cards that differ in what matters, the best first; each in the order of `preferred`."""
        alike: dict[object, list[int]] = {}
        for place, gpu in enumerate(preferred):
            key = (neighbourhood(gpu, self._inventory), self._sorts[gpu.uuid or ""])
            alike.setdefault(key, []).append(place)
        found = []
        for amounts in shares(spec.model.gpus_per_replica, [len(places) for places in alike.values()]):
            taken = [places[:amount] for places, amount in zip(alike.values(), amounts, strict=True)]
            group = tuple(sorted(place for places in taken for place in places))
            found.append((self._rank([preferred[place] for place in group], preferred, spec), group))
        return [tuple(preferred[place] for place in group) for _, group in sorted(found)]

    def _rank(self, group: Sequence[Gpu], preferred: Sequence[Gpu], spec: EngineSpec) -> tuple[int, ...]:
        """Less is better: sick cards, and those that others name, before what the cards are to each other."""
        own = self._held.get(spec.engine, ())
        return (
            sum(not gpu.is_healthy for gpu in group),
            sum(self._ledger.is_named_by_others(gpu, spec) for gpu in group),
            closeness(group, self._inventory),
            *waste(group, preferred, self._inventory),
            -sum(gpu.uuid in own for gpu in group),
        )

    def _named_by(self, specs: Iterable[EngineSpec]) -> list[str]:
        return [uuid for spec in specs for uuid in uuids_of(self._named.get(spec.engine, ()))]


def uuids_of(gpus: Iterable[Gpu]) -> list[str]:
    """The UUIDs of cards that have one."""
    return [gpu.uuid for gpu in gpus if gpu.uuid]
