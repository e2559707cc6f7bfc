"""Turn what the driver says of a card, and who holds its memory, into problems: words, any of which makes it unfit.

Silent where the card merely lacks a feature, never where a query failed: a health flag does not follow from silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmgw_reconcile.discovery.nvidia_cards import Card
from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.model.gpu import Holder

HELD_FROM_MB = 64  # contract §5: a desktop's few MiB are in nobody's way


def find_problems(card: Card, holders: Sequence[Holder] | None, *, held_above_mb: int) -> tuple[str, ...]:
    """All that speaks against the card; `holders` None: the processes on it could not be read."""
    return (
        *_driver_problems(card),
        *_memory_problems(card),
        *(["MIG mode is on: not offered as a whole"] if card.mig_enabled else []),
        *(["its processes could not be read"] if holders is None else _held(card, holders, held_above_mb)),
    )


def describe_holder(holder: Holder) -> str:
    """`pid 4121 python of alice`, as far as it is known."""
    user = f"of {holder.user}" if holder.user else ""
    return " ".join(filter(None, (f"pid {holder.pid}", holder.command, user)))


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


def _held(card: Card, holders: Sequence[Holder], held_above_mb: int) -> Iterable[str]:
    for holder in holders:
        if holder.engine is None and (holder.memory_mb is None or holder.memory_mb >= HELD_FROM_MB):
            amount = "an unknown amount of memory" if holder.memory_mb is None else f"{holder.memory_mb} MiB"
            yield f"{amount} held by {describe_holder(holder)}"
    amounts = [holder.memory_mb for holder in holders]
    if card.memory_used_mb is None or None in amounts:  # then nobody can say what is left unexplained
        return
    unexplained = card.memory_used_mb - sum(amount for amount in amounts if amount is not None)
    if unexplained > held_above_mb:
        yield f"{unexplained} MiB held by a process that is not visible"
