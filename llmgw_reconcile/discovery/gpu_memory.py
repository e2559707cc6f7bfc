"""Ask once more, right before a start, whether an engine's GPUs are free: the words for what still holds them."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw_reconcile.discovery.gpu_health import HELD_FROM_MB
from llmgw_reconcile.discovery.nvidia_cards import Card, GpuProcess
from llmgw_reconcile.discovery.nvidia_smi import NvidiaReport, Queries, end_queries, finish_queries, start_queries
from llmgw_reconcile.errors import NodeError, Severity


class MemoryQuestion:
    """A question under way; `close` it in the end, answered or not."""

    def __init__(self) -> None:
        self._queries: Queries = start_queries()

    @property
    def calls(self) -> tuple[tuple[int, ...], ...]:
        """Descriptors of each call of the tool; one has news when the call answers or ends, which it does at once."""
        return tuple(tool.descriptors for tool in self._queries.tools if tool.descriptors)

    @property
    def deadline(self) -> float:
        """When `answer` no longer waits for a call that hangs (monotonic)."""
        return min(tool.deadline for tool in self._queries.tools)

    def answer(self, gpus: Sequence[str], held_above_mb: int) -> tuple[str, ...]:
        """What stands against a start on these GPUs (UUIDs); empty when they are free. Waits for the calls.

        Nothing of the engine itself may live when this is asked. What cannot be read stands against it too.
        """
        return what_report_holds(finish_queries(self._queries), gpus, held_above_mb)

    def close(self) -> None:
        """Kill the calls that nobody waits for any more."""
        end_queries(self._queries)


def what_stays(gpus: Sequence[str], held_above_mb: int) -> tuple[str, ...]:
    """What an engine that has ended left behind on its GPUs (UUIDs): memory that no visible process explains.

    What other processes hold is theirs. Raises NodeError when the tool's answer says nothing about it.
    """
    return what_report_leaves(finish_queries(start_queries()), gpus, held_above_mb) if gpus else ()


def what_report_leaves(report: NvidiaReport, gpus: Sequence[str], held_above_mb: int) -> tuple[str, ...]:
    """The same, from what the tool said; raises as `what_stays`. A card that is gone holds nothing."""
    if not report.is_present:
        return ()
    errors = [problem.message for problem in report.problems if problem.severity is Severity.ERROR]
    if errors or report.processes is None:
        raise NodeError(errors[0] if errors else "the processes on the GPUs could not be read")
    found: list[str] = []
    for card in report.cards:
        if card.uuid in gpus:
            found += _unexplained(card, [p for p in report.processes if p.uuid == card.uuid], held_above_mb)
    return tuple(found)


def what_report_holds(report: NvidiaReport, gpus: Sequence[str], held_above_mb: int) -> tuple[str, ...]:
    """The same, from what the tool said. A node without the tool has nothing to wait for."""
    if not report.is_present:
        return ()
    errors = [problem.message for problem in report.problems if problem.severity is Severity.ERROR]
    cards = {card.uuid: card for card in report.cards}
    found: list[str] = []
    for uuid in gpus:
        if uuid.startswith("MIG-"):  # the tool books a slice's processes on its whole card: nothing to be read from it
            continue
        if (card := cards.get(uuid)) is None:  # an error may be about other cards, but this one is not to be seen
            found += errors or [f"{uuid} is gone"]
        elif report.processes is None:
            found += errors or ["the processes on the GPUs could not be read"]
        else:
            found += _holders(card, [process for process in report.processes if process.uuid == uuid], held_above_mb)
    return tuple(dict.fromkeys(found))


def _holders(card: Card, processes: Sequence[GpuProcess], held_above_mb: int) -> list[str]:
    words = [
        f"GPU {card.index}: {'memory' if p.memory_mb is None else f'{p.memory_mb} MiB'} held by pid {p.pid}"
        for p in processes
        if p.memory_mb is None or p.memory_mb >= HELD_FROM_MB
    ]
    return words or _unexplained(card, processes, held_above_mb)


def _unexplained(card: Card, processes: Sequence[GpuProcess], held_above_mb: int) -> list[str]:
    amounts = [process.memory_mb for process in processes]
    if card.memory_used_mb is None or None in amounts:  # then nobody can say what is left unexplained
        return []
    rest = card.memory_used_mb - sum(amount for amount in amounts if amount is not None)
    return [f"GPU {card.index}: {rest} MiB held by no visible process"] if rest > held_above_mb else []
