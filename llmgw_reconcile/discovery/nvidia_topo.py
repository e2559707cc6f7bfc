"""Turn the text of `nvidia-smi topo -m` into links between cards and adapters; what the text does not tell is left out.

The matrix is laid out for people: its header may be wrapped in terminal escapes, lack its blank first column or be cut
off; cells behind the matrix run together; adapters are columns by an index into a legend, or by name in old releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from llmgw_reconcile.discovery.topology import Matrix
from llmgw_reconcile.model.gpu import PcieLink

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GPU = re.compile(r"GPU([0-9]{1,4})")
NIC = re.compile(r"NIC[0-9]{1,4}")
LEGEND = re.compile(r"\s*(NIC[0-9]{1,4}): (\S+)\s*")
CELL = re.compile(r"X|NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|PSB|N/A")
FORMER = {"SOC": "SYS", "PSB": "PXB"}  # words of old drivers
SELF = "X"
# Headings behind the matrix; the numbers of a row stand in this order, those that its driver knows.
CPUS, NODES, MEMORY_NODE = "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
LARGEST = 512  # columns that are looked at


class Header(NamedTuple):
    """Names of the matrix's columns, and the headings behind them."""

    columns: tuple[str, ...]
    behind: str


def read_matrix(text: str) -> Matrix:
    """Any text as a matrix, possibly an empty one; never raises."""
    lines = ESCAPE.sub("", text).split("\n")
    words = [line.split() for line in lines]
    rows = {int(match[1]): row[1:] for row in words if (match := _label_of_row(row))}
    header = next((_header(row) for row in words if _is_header(row)), None) or _header_from(rows)
    legend = {match[1]: match[2] for match in map(LEGEND.fullmatch, lines) if match}
    cells = {
        (gpu, column): cell for gpu, row in rows.items() for column, cell in _cells(gpu, row, header) if cell != SELF
    }
    pairs = {(gpu, other): cell for (gpu, other), cell in _agreed(cells) if gpu != other}
    return Matrix(
        nvlinks={pair: int(cell[2:]) if cell.startswith("NV") else 0 for pair, cell in pairs.items() if cell != "N/A"},
        pcie={pair: link for pair, cell in pairs.items() if (link := _link(cell))},
        adapters={
            (gpu, device): link
            for (gpu, column), cell in cells.items()
            if (device := legend.get(column, column)) and not GPU.fullmatch(column) and not NIC.fullmatch(device)
            if (link := _link(cell))
        },
        numa={gpu: node for gpu, row in rows.items() if (node := _numa_node(row, header)) is not None},
    )


def _label_of_row(row: Sequence[str]) -> re.Match[str] | None:
    return GPU.fullmatch(row[0]) if len(row) > 1 and CELL.fullmatch(row[1]) else None


def _is_header(row: Sequence[str]) -> bool:
    return len(row) > 1 and bool(GPU.fullmatch(row[0])) and not CELL.fullmatch(row[1])


def _header(row: Sequence[str]) -> Header:
    columns = tuple(takewhile(lambda word: word != "CPU", row[:LARGEST]))
    return Header(columns, " ".join(row[len(columns) :]))


def _header_from(rows: Mapping[int, Sequence[str]]) -> Header:
    """Without a header only the columns of the rows themselves are known: where each has its X."""
    at = {row.index(SELF): f"GPU{gpu}" for gpu, row in rows.items() if SELF in row[:LARGEST]}
    return Header(tuple(at.get(place, "") for place in range(max(at, default=-1) + 1)), "")


def _cells(gpu: int, row: Sequence[str], header: Header) -> Iterator[tuple[str, str]]:
    """Column and cell; none of a row that lacks a cell or has its X elsewhere, since all might be shifted."""
    cells = tuple(takewhile(CELL.fullmatch, row[: len(header.columns)]))
    if len(cells) == len(header.columns) and dict(zip(header.columns, cells, strict=True)).get(f"GPU{gpu}") == SELF:
        yield from ((column, cell) for column, cell in zip(header.columns, cells, strict=True) if column)


def _agreed(cells: Mapping[tuple[int, str], str]) -> Iterator[tuple[tuple[int, int], str]]:
    """Each pair of cards in both orders, where its two cells do not contradict each other."""
    for (gpu, column), cell in cells.items():
        if (match := GPU.fullmatch(column)) and cells.get((int(match[1]), f"GPU{gpu}"), cell) == cell:
            yield (gpu, int(match[1])), cell
            yield (int(match[1]), gpu), cell


def _link(cell: str) -> PcieLink | None:
    word = FORMER.get(cell, cell)
    return PcieLink(word) if word in PcieLink.__members__ else None


def _numa_node(row: Sequence[str], header: Header) -> int | None:
    """The node of its processors; a card with memory of its own lists further nodes behind that one.

    Cells that run together leave fewer of them than there are headings, and then nothing is told.
    """
    behind = row[len(header.columns) :]
    headings = [heading for heading in (CPUS, NODES, MEMORY_NODE) if heading in header.behind]
    if NODES not in headings or len(behind) != len(headings):
        return None
    first = behind[headings.index(NODES)].partition(",")[0]
    return int(first) if re.fullmatch(r"[0-9]{1,4}", first) else None
