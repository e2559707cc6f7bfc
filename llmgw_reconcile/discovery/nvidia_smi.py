"""Run nvidia-smi's queries side by side and hand their answers on to be understood."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from llmgw_reconcile.discovery.nvidia_cards import PROCESS_FIELDS, Card, GpuProcess, read_gpus, read_processes
from llmgw_reconcile.discovery.nvidia_faults import TOOL
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.host.tool import NOT_FOUND, RunningTool, ToolResult, end_tools, finish_tools, start_tool

GPU_FIELDS = ("index", "uuid", "name", "pci.bus_id", "memory.total", "memory.used", "driver_version")
# Fields that some driver or some card does not know.
OPTIONAL_FIELDS = (
    "compute_cap",
    "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "retired_pages.pending",
)


class NvidiaReport(NamedTuple):
    """All that the tool said. `processes` is None when they could not be read; `is_present` whether the tool exists."""

    is_present: bool
    cards: tuple[Card, ...] = ()
    processes: tuple[GpuProcess, ...] | None = ()
    cuda_version: str | None = None
    problems: tuple[Diagnostic, ...] = ()


class Queries(NamedTuple):
    """The calls that run now, side by side; the last only where versions are wanted."""

    gpus: RunningTool
    processes: RunningTool
    version: RunningTool | None


def start_queries(*, with_versions: bool) -> Queries:
    """Start the calls: two, or three with the CUDA version. Hand them to `finish_queries`, or end them."""
    return Queries(
        gpus=_start_query("--query-gpu", (*GPU_FIELDS, *OPTIONAL_FIELDS)),
        processes=_start_query("--query-compute-apps", PROCESS_FIELDS),
        version=_start("--version") if with_versions else None,
    )


def finish_queries(queries: Queries) -> NvidiaReport:
    """Wait for the calls, at most 20 s each, and understand them. A query is repeated without fields it rejected."""
    gpus, processes, *version = finish_tools(tool for tool in queries if tool is not None)
    if gpus.problem == NOT_FOUND:
        return NvidiaReport(is_present=False)
    gpus, fields = _without_rejected_fields(gpus)
    cards, problems = read_gpus(gpus, fields)
    found, process_problems = read_processes(processes)
    if not any(problem.severity is Severity.ERROR for problem in problems):  # else it is the same failure once more
        problems += process_problems
    cuda = _cuda_version(version[0]) if version else None
    return NvidiaReport(is_present=True, cards=cards, processes=found, cuda_version=cuda, problems=problems)


def end_queries(queries: Queries) -> None:
    """Kill the calls that nobody waits for any more."""
    end_tools(tool for tool in queries if tool is not None)


def _start_query(option: str, fields: Iterable[str]) -> RunningTool:
    return _start(f"{option}={','.join(fields)}", "--format=csv,nounits")


def _start(*arguments: str) -> RunningTool:
    return start_tool((TOOL, *arguments), env={**os.environ, "LC_ALL": "C"})


def _without_rejected_fields(result: ToolResult) -> tuple[ToolResult, tuple[str, ...]]:
    """An older driver rejects a whole query for one field that it does not know, and names that one."""
    fields: tuple[str, ...] = (*GPU_FIELDS, *OPTIONAL_FIELDS)
    while result.returncode == 2:
        rejected = set(re.findall(r'"([\w.]+)" is not a valid field', result.stdout + result.stderr))
        rejected.intersection_update(OPTIONAL_FIELDS, fields)
        if not rejected:
            break
        fields = tuple(field for field in fields if field not in rejected)
        (result,) = finish_tools([_start_query("--query-gpu", fields)])
    return result, fields


def _cuda_version(result: ToolResult) -> str | None:
    """A tool that does not know `--version` says it in the head of its table."""
    if result.returncode not in (None, 0):
        (result,) = finish_tools([_start()])
    return read_cuda_version(result.stdout)


def read_cuda_version(text: str) -> str | None:
    """The newest CUDA that the driver can serve, from `--version` or from the table of a call without arguments.

    >>> read_cuda_version("CUDA Version        : 13.0"), read_cuda_version("| CUDA UMD Version: 13.3     |")
    ('13.0', '13.3')
    """
    match = re.search(r"CUDA(?: UMD)? Version\s*:\s*([0-9]+\.[0-9]+)", text)
    return match[1] if match else None
