"""Engines and the cards of a node to which engine gets which cards, or every reason why it gets none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.arithmetic import need_in_words
from llmgw_reconcile.placement.candidates import ACCEPT_HEALTH, Ledger, by_class, open_ledger
from llmgw_reconcile.placement.closeness import is_known_to_be_far
from llmgw_reconcile.placement.identify import find_gpu
from llmgw_reconcile.placement.search import Search, uuids_of

UNKNOWN_CLASS = "unknown"
RENUMBERED = "gpu-renumbered"
NO_INDEX_IS_BOUND: Mapping[str, Mapping[str, str]] = MappingProxyType({})


class Offer(NamedTuple):
    """The cards of one engine, in the order of CUDA_VISIBLE_DEVICES, or why it has none."""

    gpus: tuple[Gpu, ...] = ()
    refusals: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def assign_gpus(
    specs: Sequence[EngineSpec],
    inventory: Inventory,
    held: Mapping[str, tuple[str, ...]],
    *,
    cordon: Sequence[str],
    kept: Collection[str],
    bound: Mapping[str, Mapping[str, str]] = NO_INDEX_IS_BOUND,
) -> dict[str, Offer]:
    """An offer for each engine of `specs`; `held` are the UUIDs that engines have now.

    Those that fit their cards keep them, whatever became of the cards. All the others get cards as long as there is any
    way to give them out; when there is none, those win that have to move, then the first of `specs`. An engine that
    cannot move, or that is `kept`, holds on to the cards that it has. `bound`, by engine, is the UUID that an index in
    `gpus.ids` stood for when the engine was started.
    """
    offers = {spec.engine: found for spec in specs if (found := _foregone(spec, inventory, held, bound))}
    seekers = [spec for spec in specs if spec.engine not in offers]
    ledger = open_ledger(inventory.gpus, specs, cordon)
    search = Search(seekers, ledger, inventory, held)
    movers = [spec for spec in seekers if spec.engine in held and spec.engine not in kept]
    leaving = {spec.engine for spec in specs if spec.model.gpus_per_replica == 0} - set(kept)
    staying = held.keys() - {spec.engine for spec in movers} - leaving
    winners = [*search.who_moves(movers, _uuids(staying, held))]
    staying |= {spec.engine for spec in movers if spec not in winners}
    busy = _uuids(staying, held)
    for spec in seekers:
        if spec.engine not in held and search.all_fit([*winners, spec], busy):
            winners.append(spec)
    chosen = search.choose(winners, busy)
    offers.update(
        {engine: Offer(cards, warnings=_far_apart(engine, cards, inventory)) for engine, cards in chosen.items()}
    )
    for spec in seekers:
        if spec.engine not in offers:
            ahead = _ahead_of(spec, seekers, chosen, held)
            given = {uuid: engine for engine in sorted(staying) for uuid in held[engine]}
            given.update({uuid: engine for engine in ahead for uuid in uuids_of(chosen[engine])})
            wish = _what_it_would_get(spec, search, given) if spec.engine in kept else None
            offers[spec.engine] = wish or _why_none(spec, ledger._replace(taken=given))
    return offers


def _foregone(
    spec: EngineSpec,
    inventory: Inventory,
    held: Mapping[str, tuple[str, ...]],
    bound: Mapping[str, Mapping[str, str]],
) -> Offer | None:
    """The offer for an engine that needs no cards, keeps its own, or could not be given any on this node."""
    if renumbered := _renumbered(spec, inventory, bound.get(spec.engine, {})):
        return _refused(spec, RENUMBERED, "; ".join(renumbered), "name it by its UUID in `gpus.ids`")
    if spec.engine in held and _fits(spec, held[spec.engine], inventory):
        return Offer(_cards(held[spec.engine], inventory))
    if spec.model.gpus_per_replica == 0:
        return Offer()
    if not inventory.gpus_known:
        return _refused(spec, "gpus-unknown", "the GPUs of this node could not be read, so none is given out")
    if not inventory.gpus:
        hint = "without GPUs: `device: cpu`, or a recorded node: llmgw plan STATE --from SNAPSHOT.json"
        return _refused(spec, "no-gpus", f"{_need(spec)}, this node has none", hint)
    return None


def _renumbered(spec: EngineSpec, inventory: Inventory, bound: Mapping[str, str]) -> list[str]:
    """The indices of `gpus.ids` that name another card than the one that they were bound to."""
    known = ((name, find_gpu(name, inventory.gpus)) for name in spec.gpu_ids if name in bound)
    return [
        f"gpus.ids: index {name} was {bound[name]} when the engine was started, and is {gpu.uuid} now"
        for name, gpu in known
        if gpu is not None and gpu.uuid != bound[name]
    ]


def _uuids(engines: Iterable[str], held: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(uuid for engine in engines for uuid in held[engine])


def _ahead_of(
    spec: EngineSpec, seekers: Sequence[EngineSpec], winners: Collection[str], held: Collection[str]
) -> list[str]:
    """The winners that win over this engine: those that move, and for a new one those before it in the file."""
    before = () if spec.engine in held else seekers[: seekers.index(spec)]
    return [other.engine for other in seekers if other.engine in winners and (other.engine in held or other in before)]


def _far_apart(engine: str, cards: Sequence[Gpu], inventory: Inventory) -> tuple[Diagnostic, ...]:
    if not is_known_to_be_far(cards, inventory):
        return ()
    message = (
        f"its GPUs ({', '.join(str(gpu.index) for gpu in cards)}) are in several NUMA nodes and not joined by NVLink"
    )
    hint = "no nearer ones are free; pipeline_parallel_size instead of tensor_parallel_size suffers less from it"
    return (Diagnostic(Severity.WARNING, "gpus-far-apart", engine, message, hint),)


def _fits(spec: EngineSpec, uuids: tuple[str, ...], inventory: Inventory) -> bool:
    """Whether what an engine has is what its spec asks for. A card that is not known any more speaks for keeping it."""
    if len(uuids) != spec.model.gpus_per_replica:
        return False
    if not inventory.gpus_known:
        return True
    wanted = spec.model.gpus.gpu_class
    if any(card.gpu_class not in (wanted, UNKNOWN_CLASS) for card in _cards(uuids, inventory) if wanted):
        return False
    named = (find_gpu(name, inventory.gpus) for name in spec.gpu_ids)
    return all(card is None or card.uuid in (None, uuid) for card, uuid in zip(named, uuids, strict=False))


def _cards(uuids: tuple[str, ...], inventory: Inventory) -> tuple[Gpu, ...]:
    """The cards of these UUIDs; one that the inventory does not list is known by its UUID alone."""
    known = {gpu.uuid: gpu for gpu in inventory.gpus}
    return tuple(known.get(uuid) or Gpu(index=None, uuid=uuid, name=None, gpu_class=UNKNOWN_CLASS) for uuid in uuids)


def _what_it_would_get(spec: EngineSpec, search: Search, given: Mapping[str, str]) -> Offer | None:
    """The offer for an engine that stays as it is, were it to move; None when there are no cards for it."""
    others = [uuid for uuid, engine in given.items() if engine != spec.engine]
    return Offer(search.choose([spec], others)[spec.engine]) if search.all_fit([spec], others) else None


def _why_none(spec: EngineSpec, ledger: Ledger) -> Offer:
    """Why an engine gets nothing besides those that have cards in the ledger."""
    if spec.gpu_ids:
        return _no_named_cards(spec, ledger)
    classes = sorted({gpu.gpu_class for gpu in ledger.gpus})
    if (wanted := spec.model.gpus.gpu_class) and wanted not in classes:
        hint = _did_you_mean(wanted, classes)
        return _refused(spec, "unknown-gpu-class", f"this node has no GPU of class {wanted}", hint)
    return _no_cards(spec, ledger)


def _no_cards(spec: EngineSpec, ledger: Ledger) -> Offer:
    """Why there are not as many cards as it needs, all of one class."""
    need = spec.model.gpus_per_replica
    reasons = [(gpu, ledger.why_not(gpu, spec)) for gpu in ledger.gpus]
    available = [gpu for gpu, why in reasons if not why]
    outs = "; ".join(f"{gpu.label}: {why}" for gpu, why in reasons if why)
    if any(len(cards) >= need for _, cards in by_class(available, ())):
        return _no_way_found(spec)
    if len(available) >= need:
        free = ", ".join(f"{len(cards)} {name}" for name, cards in by_class(available, ()))
        message = f"{_need(spec)}, all of one class; free are {free}" + (outs and f"; {outs}")
        return _refused(spec, "mixed-gpu-classes", message, "make the group smaller, or free more GPUs of one class")
    free_of_all = f", {len(available)} of them free: {outs}" if outs else ""
    message = f"{_need(spec)}, this node has {len(ledger.gpus)}{free_of_all}"
    return _refused(spec, "not-enough-gpus", message, _health_hint(spec, ledger))


def _no_named_cards(spec: EngineSpec, ledger: Ledger) -> Offer:
    """Why it cannot have the cards that the file names."""
    found = [(name, find_gpu(name, ledger.gpus)) for name in spec.gpu_ids]
    cards = tuple(gpu for _, gpu in found if gpu is not None)
    problems = [f"{name}: this node has no such GPU" for name, gpu in found if gpu is None]
    problems += [f"{gpu.label}: {why}" for gpu in cards if (why := ledger.why_not(gpu, spec))]
    problems += [f"{gpu.label}: named twice" for gpu in dict.fromkeys(cards) if cards.count(gpu) > 1]
    refusals: tuple[Diagnostic, ...] = ()
    if problems:
        refusals += _refused(spec, "gpu-unavailable", "; ".join(problems), _health_hint(spec, ledger)).refusals
    if len(classes := by_class(cards, ())) > 1:
        mix = ", ".join(f"{len(same)} {name}" for name, same in classes)
        message = f"{_need(spec)}, all of one class; gpus.ids names {mix}"
        refusals += _refused(spec, "mixed-gpu-classes", message, "name GPUs of one class").refusals
    return Offer(refusals=refusals) if refusals else _no_way_found(spec)


def _no_way_found(spec: EngineSpec) -> Offer:
    """The search ended at its bound: there may be a way to give it cards."""
    message = f"{_need(spec)}; among the ways that were tried to give the GPUs out, none serves it besides the others"
    return _refused(
        spec, "not-enough-gpus", message, "name the GPUs of the engines that accept sick ones in `gpus.ids`"
    )


def _need(spec: EngineSpec) -> str:
    wanted = spec.model.gpus.gpu_class
    return f"needs {need_in_words(spec.model)}" + (f" of class {wanted}" if wanted else "")


def _refused(spec: EngineSpec, code: str, message: str, hint: str = "") -> Offer:
    return Offer(refusals=(Diagnostic(Severity.ERROR, code, spec.engine, message, hint),))


def _health_hint(spec: EngineSpec, ledger: Ledger) -> str:
    codes = [f"{ACCEPT_HEALTH}{gpu.uuid}" for gpu in ledger.refused_for_health(spec)]
    return f"to use a card in spite of its health: `accept: [{', '.join(codes)}]`" if codes else ""


def _did_you_mean(wanted: str, classes: list[str]) -> str:
    from difflib import get_close_matches  # only where something is wrong: it costs start-up

    close = get_close_matches(wanted, classes, n=1)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(classes)}"
