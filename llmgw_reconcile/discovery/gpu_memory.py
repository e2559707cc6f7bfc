"""Ask once more, right before a start, whether an engine's GPUs are free: the words for what still holds them."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw_reconcile.discovery.gpu_health import HELD_FROM_MB
from llmgw_reconcile.discovery.nvidia_cards import Card, GpuProcess
from llmgw_reconcile.discovery.nvidia_smi import NvidiaReport, finish_queries, start_queries
from llmgw_reconcile.errors import Severity


def what_holds(gpus: Sequence[str], held_above_mb: int) -> tuple[str, ...]:
    """What stands against a start on these GPUs (UUIDs) now; empty when they are free or there are none.

    Nothing of the engine itself may live when this is asked. An answer that cannot be read stands against it too.
    """
    return what_report_holds(finish_queries(start_queries(with_versions=False)), gpus, held_above_mb) if gpus else ()


def what_report_holds(report: NvidiaReport, gpus: Sequence[str], held_above_mb: int) -> tuple[str, ...]:
    """The same, from what the tool said. A node without the tool has nothing to wait for."""
    if not report.is_present:
        return ()
    errors = [problem.message for problem in report.problems if problem.severity is Severity.ERROR]
    if errors or report.processes is None:
        return tuple(errors) or ("the processes on the GPUs could not be read",)
    found = []
    for uuid in gpus:
        card = next((card for card in report.cards if card.uuid == uuid), None)
        processes = [process for process in report.processes if process.uuid == uuid]
        found += [f"{uuid} is gone"] if card is None else _holders(card, processes, held_above_mb)
    return tuple(found)


def _holders(card: Card, processes: Sequence[GpuProcess], held_above_mb: int) -> list[str]:
    words = [
        f"GPU {card.index}: {'memory' if p.memory_mb is None else f'{p.memory_mb} MiB'} held by pid {p.pid}"
        for p in processes
        if p.memory_mb is None or p.memory_mb >= HELD_FROM_MB
    ]
    if words or card.memory_used_mb is None:
        return words
    unexplained = card.memory_used_mb - sum(p.memory_mb or 0 for p in processes)
    return [f"GPU {card.index}: {unexplained} MiB held by no visible process"] if unexplained > held_above_mb else []
