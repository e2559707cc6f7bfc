"""Engines and the cards of a node to which engine gets which cards, or every reason why it gets none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.arithmetic import need_in_words
from llmgw_reconcile.placement.candidates import ACCEPT_HEALTH, Ledger, by_class, open_ledger, order_of_preference
from llmgw_reconcile.placement.identify import find_gpu

UNKNOWN_CLASS = "unknown"


class Offer(NamedTuple):
    """The cards of one engine, in the order of CUDA_VISIBLE_DEVICES, or why it has none."""

    gpus: tuple[Gpu, ...] = ()
    refusals: tuple[Diagnostic, ...] = ()


def assign_gpus(
    specs: Sequence[EngineSpec],
    inventory: Inventory,
    held: Mapping[str, tuple[str, ...]],
    *,
    cordon: Sequence[str],
    kept: Collection[str],
) -> dict[str, Offer]:
    """An offer for each engine of `specs`; `held` are the UUIDs that engines have now.

    Those that fit their cards keep them, whatever became of the cards. Then those follow that have to move, then the
    others, in the order of `specs`. An engine that cannot move, or that is `kept`, holds on to the cards that it has.
    """
    ledger = open_ledger(inventory.gpus, specs, cordon)
    for engine, uuids in held.items():
        ledger.taken.update(dict.fromkeys(uuids, engine))
    offers = {
        spec.engine: Offer(_cards(held[spec.engine], inventory))
        for spec in specs
        if spec.engine in held and _fits(spec, held[spec.engine], inventory)
    }
    waiting = [spec for spec in specs if spec.engine not in offers]
    for spec in sorted(waiting, key=lambda spec: spec.engine not in held):
        offers[spec.engine] = offer = _offer(spec, inventory, ledger)
        if not offer.refusals and spec.engine not in kept:
            ledger.give(spec, offer.gpus)
    return offers


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


def _offer(spec: EngineSpec, inventory: Inventory, ledger: Ledger) -> Offer:
    if spec.model.gpus_per_replica == 0:
        return Offer()
    if not inventory.gpus_known:
        return _refused(spec, "gpus-unknown", "the GPUs of this node could not be read, so none is given out")
    if not inventory.gpus:
        hint = "without GPUs: `device: cpu`, or a recorded node: llmgw plan STATE --from SNAPSHOT.json"
        return _refused(spec, "no-gpus", f"{_need(spec)}, this node has none", hint)
    if spec.gpu_ids:
        return _named_cards(spec, ledger)
    classes = sorted({gpu.gpu_class for gpu in inventory.gpus})
    if (wanted := spec.model.gpus.gpu_class) and wanted not in classes:
        hint = _did_you_mean(wanted, classes)
        return _refused(spec, "unknown-gpu-class", f"this node has no GPU of class {wanted}", hint)
    return _any_cards(spec, ledger)


def _any_cards(spec: EngineSpec, ledger: Ledger) -> Offer:
    """As many cards as it needs, all of one class."""
    need = spec.model.gpus_per_replica
    available = ledger.available_to(spec)
    own = {uuid for uuid, engine in ledger.taken.items() if engine == spec.engine}
    classes = by_class(available, own)
    for _, cards in classes:
        if len(cards) >= need:
            return Offer(order_of_preference(cards, spec, ledger)[:need])
    outs = "; ".join(f"{gpu.label}: {why}" for gpu in ledger.gpus if (why := ledger.why_not(gpu, spec)))
    if len(available) >= need:
        free = ", ".join(f"{len(cards)} {name}" for name, cards in classes)
        message = f"{_need(spec)}, all of one class; free are {free}" + (outs and f"; {outs}")
        return _refused(spec, "mixed-gpu-classes", message, "make the group smaller, or free more GPUs of one class")
    free_of_all = f", {len(available)} of them free: {outs}" if outs else ""
    message = f"{_need(spec)}, this node has {len(ledger.gpus)}{free_of_all}"
    return _refused(spec, "not-enough-gpus", message, _health_hint(spec, ledger))


def _named_cards(spec: EngineSpec, ledger: Ledger) -> Offer:
    """The cards that the file names, in its order."""
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
    return Offer(refusals=refusals) if refusals else Offer(cards)


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
