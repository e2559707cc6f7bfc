"""Turn the CSV text of an nvidia-smi query into rows by field name, and keep what is no row apart.

nvidia-smi prints sentences on standard output, between rows and instead of them; its cells are never quoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# The tool heads a column by one name although another was asked for.
SAME_FIELD = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "used_memory": "used_gpu_memory"}
SAME_PREFIX = ("clocks_throttle_reasons.", "clocks_event_reasons.")  # until driver 535, and since

Row = Mapping[str, str]


class Table(NamedTuple):
    """A query's answer; `header` is empty when no line named all the fields that were asked for."""

    header: tuple[str, ...]
    rows: tuple[Row, ...]  # field -> cell, by the names of `canonical`
    sentences: tuple[str, ...]  # lines that are no rows
    broken: tuple[str, ...]  # lines that are rows, and do not fit the header: cut off or shifted


def canonical(field: str) -> str:
    """The one name of a field, without its unit.

    >>> canonical("memory.total [MiB]"), canonical("gpu_uuid"), canonical("clocks_throttle_reasons.hw_slowdown")
    ('memory.total', 'uuid', 'clocks_event_reasons.hw_slowdown')
    """
    name = field.partition(" [")[0].strip()
    if name.startswith(SAME_PREFIX[0]):
        name = SAME_PREFIX[1] + name.removeprefix(SAME_PREFIX[0])
    return SAME_FIELD.get(name, name)


def parse_table(text: str, fields: Sequence[str], *, free_text: str = "") -> Table:
    """Any text as a table of these fields; never raises.

    Columns are found by the header, whatever their order, and a row that has more or fewer cells is never shifted into
    place. Only the column `free_text` may hold commas, where it is the last one.
    """
    wanted = {canonical(field) for field in fields}
    header: tuple[str, ...] = ()
    header_line = ""
    rows: list[Row] = []
    sentences: list[str] = []
    broken: list[str] = []
    lines = [line.rstrip("\r") for line in text.split("\n")]
    cut_off = lines.pop()  # the tool ends each line
    for line in filter(str.strip, lines):
        has_free_end = header and header[-1] == free_text
        cells = [cell.strip() for cell in line.split(",", len(header) - 1 if has_free_end else -1)]
        if line == header_line:
            continue
        if not header and wanted <= {canonical(cell) for cell in cells}:
            header, header_line = tuple(map(canonical, cells)), line
        elif header and len(cells) == len(header):
            rows.append(dict(zip(header, cells, strict=True)))
        elif header and _looks_like_a_row(cells):
            broken.append(line)
        else:
            sentences.append(line)
    if cut_off.strip():
        broken.append(cut_off)
    return Table(header, tuple(rows), tuple(sentences), tuple(broken))


def _looks_like_a_row(cells: Sequence[str]) -> bool:
    """Sentences may hold commas, but no UUID and no bracketed cell, and they do not begin with a number."""
    return len(cells) > 1 and (
        cells[0].isdigit() or any(cell.startswith("[") or re.match(r"(GPU|MIG)-[0-9a-f]{8}", cell) for cell in cells)
    )
