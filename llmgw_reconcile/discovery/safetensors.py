"""Turn the headers of safetensors files into the size of their tensors by type, without reading a tensor.

A file is eight bytes (little-endian: the length of the header), the header as JSON (a `data_offsets` pair for each
tensor) and the tensors: so the header says how long the file must be (safetensors, README, "Format").
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from llmgw_reconcile.host.file_start import open_plain
from llmgw_reconcile.model.checkpoint import Stored

LENGTH_BYTES = 8
HEADER_LIMIT = 100_000_000  # bytes; the format's own
LFS_POINTER = b"version https://git-lfs"


class Shard(NamedTuple):
    """One file: its tensors by type, or in `problem` what is wrong with it."""

    weights: tuple[Stored, ...] = ()
    problem: str = ""


def read_shard(path: str) -> Shard:
    """What the header of one file says, and whether the file is as long as that. Raises OSError."""
    with open_plain(path) as (file, size):
        start = file.read(LENGTH_BYTES)
        length = int.from_bytes(start, "little")
        if LFS_POINTER.startswith(start) and size:
            return Shard(problem="a pointer of Git LFS, not the weights")
        if size < LENGTH_BYTES or length > HEADER_LIMIT:
            return Shard(problem="no safetensors file: it does not begin with the length of a header")
        text = file.read(length)
    if len(text) < length:
        return Shard(problem=f"truncated: {size} bytes, and its header alone has {length}")
    try:
        weights, last = _tensors(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Shard(problem="its header is no JSON of safetensors")
    wanted = LENGTH_BYTES + length + last
    if size < wanted:
        return Shard(problem=f"truncated: {size} bytes, and its header says {wanted}")
    return Shard(weights)


def summed(shards: Iterable[tuple[Stored, ...]]) -> tuple[Stored, ...]:
    """The sizes of several files added up by type, sorted by type."""
    sizes: dict[str, int] = {}
    for weights in shards:
        for dtype, size in weights:
            sizes[dtype] = sizes.get(dtype, 0) + size
    return tuple(Stored(dtype, sizes[dtype]) for dtype in sorted(sizes))


def _tensors(header: dict[str, dict[str, object]]) -> tuple[tuple[Stored, ...], int]:
    """Sizes by type, and where the last tensor ends behind the header."""
    sizes: dict[str, int] = {}
    last = 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        first, end = map(int, tensor["data_offsets"])  # type: ignore[call-overload]
        dtype = str(tensor["dtype"])
        sizes[dtype] = sizes.get(dtype, 0) + end - first
        last = max(last, end)
    return tuple(Stored(dtype, sizes[dtype]) for dtype in sorted(sizes)), last
