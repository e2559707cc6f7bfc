"""Turn what the driver says of a card, and who holds its memory, into problems: words, any of which makes it unfit.

Silent where the card merely lacks a feature, never where a query failed: a health flag does not follow from silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmgw_reconcile.discovery.nvidia_cards import Card
from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.model.gpu import Holder, HolderKind

HELD_FROM_MB = 64  # contract §5: a desktop's few MiB are in nobody's way
MIG_IS_ON = "MIG mode is on: not offered as a whole"
SLOWDOWN_WORDS = {
    "hw_thermal_slowdown": "its hardware slows it down, since it is too hot",
    "sw_thermal_slowdown": "the driver slows it down, since it is too hot",
    "hw_slowdown": "its hardware slows it down: heat, or a lack of power",
}


def find_problems(card: Card, holders: Sequence[Holder] | None, *, held_above_mb: int) -> tuple[str, ...]:
    """All that speaks against the card; `holders` None: the processes on it could not be read."""
    return (
        *_driver_problems(card),
        *_memory_problems(card),
        *([MIG_IS_ON] if card.mig_enabled else []),
        *(["its processes could not be read"] if holders is None else held(holders)),
        *unexplained(card.memory_used_mb, holders, held_above_mb),
    )


def find_slice_problems(card: Card) -> tuple[str, ...]:
    """What of the card's condition speaks against its MIG slices as well.

    Inside a container that was given slices only, the driver does not let anyone ask for the whole card's figures.
    """
    visible = tuple(fault for fault in card.faults if "permission" not in fault[1].lower())
    return (*_driver_problems(card._replace(faults=visible)), *_memory_problems(card))


def find_warnings(card: Card) -> tuple[str, ...]:
    """What is worth knowing of the card, and no reason to leave it alone."""
    reasons = [name for name in card.slowdowns if name != "hw_slowdown" or "hw_thermal_slowdown" not in card.slowdowns]
    return tuple(SLOWDOWN_WORDS[name] for name in reasons)


def describe_holder(holder: Holder) -> str:
    """`pid 4121 python of alice`, as far as it is known."""
    user = f"of {holder.user}" if holder.user else ""
    words = " ".join(filter(None, (f"pid {holder.pid}", holder.command, user)))
    if holder.kind is HolderKind.NOT_VISIBLE:
        return f"{words}, which is not visible here: in another PID namespace, hidden, or just ended"
    return words


def _driver_problems(card: Card) -> Iterable[str]:
    for sentence in card.sentences:
        yield f"nvidia-smi says: {one_line(sentence)}"
    answers = dict.fromkeys(answer for _, answer in card.faults)
    for answer in answers:
        fields = ", ".join(field for field, other in card.faults if other == answer)
        if "reset" in answer.lower():
            yield f"requires reset ({answer}): `nvidia-smi --gpu-reset`, or reboot"
        else:
            yield f"the driver answers {answer} for {fields}"
    if card.uuid is None and not card.sentences and not card.faults:
        yield "the driver gives no UUID for it"


def _memory_problems(card: Card) -> Iterable[str]:
    if card.ecc_errors:
        yield f"{card.ecc_errors} uncorrected ECC error{'s' if card.ecc_errors > 1 else ''}"
    if card.remapping_failed:
        yield "row remapping failed: replace the GPU"
    if card.remapping_pending:
        yield "row remapping pending: reset the GPU"
    if card.retirement_pending:
        yield "page retirement pending: reset the GPU"


def held(holders: Iterable[Holder]) -> Iterable[str]:
    """Who holds the memory and is none of ours; another llmgw's supervisor holds its cards before its engine does."""
    for holder in holders:
        if holder.kind is HolderKind.OTHER_LLMGW and holder.memory_mb is None:
            yield f"given to an engine of another llmgw: {describe_holder(holder)}"
        elif not holder.is_ours and (holder.memory_mb is None or holder.memory_mb >= HELD_FROM_MB):
            amount = "an unknown amount of memory" if holder.memory_mb is None else f"{holder.memory_mb} MiB"
            yield f"{amount} held by {describe_holder(holder)}"


def unexplained(used_mb: int | None, holders: Iterable[Holder] | None, held_above_mb: int) -> Iterable[str]:
    """Memory in use that no visible process has; nobody can say where amounts are not known."""
    amounts = [holder.memory_mb for holder in holders or ()]
    if holders is None or used_mb is None or None in amounts:
        return
    rest = used_mb - sum(amount for amount in amounts if amount is not None)
    if rest > held_above_mb:
        yield f"{rest} MiB held by a process that is not visible"
