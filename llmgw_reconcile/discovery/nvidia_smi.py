"""Run nvidia-smi's queries side by side and hand their answers on to be understood.

Every call that llmgw makes of the tool is here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from llmgw_reconcile.discovery.nvidia_cards import (
    PROCESS_FIELDS,
    SLOWDOWNS,
    Card,
    GpuProcess,
    read_gpus,
    read_processes,
)
from llmgw_reconcile.discovery.nvidia_faults import TOOL, part_failed
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.host.tool import NOT_FOUND, RunningTool, ToolResult, end_tools, finish_tools, start_tool

if TYPE_CHECKING:  # loaded where they are asked for: every supervisor carries this module
    from llmgw_reconcile.discovery.nvidia_mig import Slices
    from llmgw_reconcile.discovery.topology import Matrix

GPU_FIELDS = ("index", "uuid", "name", "pci.bus_id", "memory.total", "memory.used", "driver_version")
# Fields that some driver or some card does not know. Of two names of one field the older one is asked for, which all
# drivers take so far, and the newer one where that is rejected.
OPTIONAL_FIELDS = (
    "compute_cap",
    "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "retired_pages.pending",
    "display_active",
    "persistence_mode",
    *(f"clocks_throttle_reasons.{name}" for name in SLOWDOWNS),
)
NEWER_NAMES = {"clocks_throttle_reasons": tuple(f"clocks_event_reasons.{name}" for name in SLOWDOWNS)}


class NvidiaReport(NamedTuple):
    """All that the tool said. `processes` is None when they could not be read; `is_present` whether the tool exists.

    `topology` and `slices` are None when nobody asked for them, or when they could not be read.
    """

    is_present: bool
    cards: tuple[Card, ...] = ()
    processes: tuple[GpuProcess, ...] | None = ()
    cuda_version: str | None = None
    problems: tuple[Diagnostic, ...] = ()
    topology: Matrix | None = None
    slices: Slices | None = None
    answers: tuple[ToolResult, ...] = ()  # as they were given


class Queries(NamedTuple):
    """The calls that run now, side by side: two, and those that were asked for besides."""

    gpus: RunningTool
    processes: RunningTool
    version: RunningTool | None = None
    topology: RunningTool | None = None
    with_slices: bool = False

    @property
    def tools(self) -> tuple[RunningTool, ...]:
        """All of them, in that order."""
        calls = (self.gpus, self.processes, self.version, self.topology)
        return tuple(call for call in calls if call is not None)


def start_queries(*, with_versions: bool = False, with_topology: bool = False, with_slices: bool = False) -> Queries:
    """Start the calls: two, and one each for versions and topology. Hand them to `finish_queries`, or end them.

    `with_slices`: what cards in MIG mode are split into; that takes two more calls, where there is such a card.
    """
    queries = Queries(
        gpus=_start_query("--query-gpu", (*GPU_FIELDS, *OPTIONAL_FIELDS)),
        processes=_start_query("--query-compute-apps", PROCESS_FIELDS),
        version=_start("--version") if with_versions else None,
    )
    return add_queries(queries, topology=with_topology, slices=with_slices)


def add_queries(queries: Queries, *, topology: bool = False, slices: bool = False) -> Queries:
    """The same and these besides; what was asked for already is not asked again."""
    if topology and queries.topology is None:
        queries = queries._replace(topology=_start("topo", "-m"))
    return queries._replace(with_slices=queries.with_slices or slices)


def finish_queries(queries: Queries) -> NvidiaReport:
    """Wait for the calls, at most 20 s each, and understand them. A query is repeated without fields it rejected."""
    answers = list(finish_tools(queries.tools))
    gpus, processes, *others = answers
    if gpus.problem == NOT_FOUND:
        return NvidiaReport(is_present=False, answers=tuple(answers))
    gpus, fields = _without_rejected_fields(gpus, answers)
    cards, problems = read_gpus(gpus, fields)
    found, process_problems = read_processes(processes)
    if not any(problem.severity is Severity.ERROR for problem in problems):  # else it is the same failure once more
        problems += process_problems
    cuda = _cuda_version(others.pop(0), answers) if queries.version else None
    topology, topology_problems = _topology(others.pop(0)) if queries.topology else (None, ())
    slices, slice_problems = _slices(cards, answers) if queries.with_slices else (None, ())
    if cards:
        problems += (*topology_problems, *slice_problems)
    return NvidiaReport(
        is_present=True,
        cards=cards,
        processes=found,
        cuda_version=cuda,
        problems=problems,
        topology=topology,
        slices=slices,
        answers=tuple(answers),
    )


def end_queries(queries: Queries) -> None:
    """Kill the calls that nobody waits for any more."""
    end_tools(queries.tools)


def _start_query(option: str, fields: Iterable[str]) -> RunningTool:
    return _start(f"{option}={','.join(fields)}", "--format=csv,nounits")


def _start(*arguments: str) -> RunningTool:
    return start_tool((TOOL, *arguments), env={**os.environ, "LC_ALL": "C"})


def _ask(answers: list[ToolResult], *calls: Sequence[str]) -> tuple[ToolResult, ...]:
    results = finish_tools([_start(*call) for call in calls])
    answers += results
    return results


def _without_rejected_fields(result: ToolResult, answers: list[ToolResult]) -> tuple[ToolResult, tuple[str, ...]]:
    """An older driver rejects a whole query for one field that it does not know, and names that one.

    Fields with the same first word came with one release, so that they go together.
    """
    fields: tuple[str, ...] = (*GPU_FIELDS, *OPTIONAL_FIELDS)
    while result.returncode == 2:
        named = set(re.findall(r'"([\w.]+)" is not a valid field', result.stdout + result.stderr))
        families = {_family(field) for field in named.intersection(fields).difference(GPU_FIELDS)}
        if not families:
            break
        kept = tuple(field for field in fields if field in GPU_FIELDS or _family(field) not in families)
        fields = (*kept, *(name for family in sorted(families) for name in NEWER_NAMES.get(family, ())))
        (result,) = finish_tools([_start_query("--query-gpu", fields)])
        answers.append(result)
    return result, fields


def _family(field: str) -> str:
    return field.partition(".")[0]


def _cuda_version(result: ToolResult, answers: list[ToolResult]) -> str | None:
    """A tool that does not know `--version` says it in the head of its table."""
    if result.returncode not in (None, 0):
        (result,) = _ask(answers, ())
    return read_cuda_version(result.stdout)


def read_cuda_version(text: str) -> str | None:
    """The newest CUDA that the driver can serve, from `--version` or from the table of a call without arguments.

    >>> read_cuda_version("CUDA Version        : 13.0"), read_cuda_version("| CUDA UMD Version: 13.3     |")
    ('13.0', '13.3')
    """
    match = re.search(r"CUDA(?: UMD)? Version\s*:\s*([0-9]+\.[0-9]+)", text)
    return match[1] if match else None


def _topology(result: ToolResult) -> tuple[Matrix | None, tuple[Diagnostic, ...]]:
    """A lost card gives an exit code too; what is told of the others is believed."""
    from llmgw_reconcile.discovery.nvidia_topo import read_matrix

    matrix = read_matrix(result.stdout)
    if result.returncode != 0 and not any(matrix):
        return None, (part_failed(result, "nvidia-smi-topology", "how the GPUs are connected"),)
    return matrix, ()


def _slices(cards: Iterable[Card], answers: list[ToolResult]) -> tuple[Slices | None, tuple[Diagnostic, ...]]:
    """`-L` names the MIG devices; the table of a call without arguments tells their memory, and who is on them."""
    if not any(card.mig_enabled or "mig.mode.current" in dict(card.faults) for card in cards):
        return None, ()
    from llmgw_reconcile.discovery.nvidia_mig import read_slices

    names, table = _ask(answers, ("-L",), ())
    slices = read_slices(names.stdout, table.stdout)
    if names.returncode != 0 and not slices:
        return None, (part_failed(names, "nvidia-smi-slices", "the MIG devices"),)
    return slices, ()
