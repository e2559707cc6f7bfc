"""Turn the header of a GGUF file into its geometry and the size of its tensors, without reading a tensor.

The format: ggml, docs/gguf.md, versions 2 and 3, little-endian. The sizes of ggml's types: ggml-common.h.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, NamedTuple

from llmgw_reconcile.host.file_start import open_plain

HEADER_LIMIT = 256 << 20  # bytes; vocabularies of some 10 MiB are usual
CHUNK = 4 << 20
LISTED = 1024  # items of an array that are looked at: one a layer
DEFAULT_ALIGNMENT = 32
STRING, ARRAY = 8, 9

# Metadata types by number -> the struct format of one value.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Tensor types by number -> values in a block, bytes of a block.
_BLOCKS = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    9: (32, 36),  # Q8_1
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    15: (256, 292),  # Q8_K
    16: (256, 66),  # IQ2_XXS
    17: (256, 74),  # IQ2_XS
    18: (256, 98),  # IQ3_XXS
    19: (256, 50),  # IQ1_S
    20: (32, 18),  # IQ4_NL
    21: (256, 110),  # IQ3_S
    22: (256, 82),  # IQ2_S
    23: (256, 136),  # IQ4_XS
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
    27: (1, 8),  # I64
    28: (1, 8),  # F64
    29: (256, 56),  # IQ1_M
    30: (1, 2),  # BF16
    34: (256, 54),  # TQ1_0
    35: (256, 66),  # TQ2_0
    39: (32, 17),  # MXFP4
}


class GgufHeader(NamedTuple):
    """The metadata (arrays only up to a length, strings of arrays left out), and how long the file must be."""

    metadata: dict[str, Any]
    size: int  # bytes of the file
    wanted: int  # bytes that its tensor table asks for, at least
    tensors: int  # bytes of its tensors; those of a type that is not known count nothing


class NoGgufError(ValueError):
    """The file is no GGUF, or its header ends too early; the message says which."""


def read_gguf(path: str) -> GgufHeader:
    """The header of one file. Raises OSError, and NoGgufError."""
    with open_plain(path) as (file, size):
        cursor = _Cursor(file)
        if cursor.take(4) != b"GGUF":
            raise NoGgufError("no GGUF file: it does not begin with that word")
        version = cursor.number("I")
        if version not in (2, 3):
            raise NoGgufError(f"GGUF version {version}, which is not known")
        count, entries = cursor.number("Q"), cursor.number("Q")
        metadata = dict(_entry(cursor) for _ in range(entries))
        ends, total = 0, 0
        for _ in range(count):
            end, length = _tensor(cursor)
            ends, total = max(ends, end), total + length
        alignment = int(metadata.get("general.alignment") or DEFAULT_ALIGNMENT)
        start = -(-cursor.offset // alignment) * alignment
        return GgufHeader(metadata, size, start + ends if count else cursor.offset, total)


def _entry(cursor: _Cursor) -> tuple[str, Any]:
    key = cursor.text()
    return key, _value(cursor, cursor.number("I"))


def _value(cursor: _Cursor, kind: int) -> Any:
    if kind == STRING:
        return cursor.text()
    if kind != ARRAY:
        return cursor.number(_scalar(kind))
    of, count = cursor.number("I"), cursor.number("Q")
    if of == STRING:
        for _ in range(count):
            cursor.skip(cursor.number("Q"))
        return None
    if of == ARRAY:
        raise NoGgufError("an array of arrays, which is not known")
    width = struct.calcsize(f"<{_scalar(of)}")
    listed = min(count, LISTED)
    values = [cursor.number(_scalar(of)) for _ in range(listed)]
    cursor.skip((count - listed) * width)
    return values


def _scalar(kind: int) -> str:
    if kind not in _SCALARS:
        raise NoGgufError(f"metadata of type {kind}, which is not known")
    return _SCALARS[kind]


def _tensor(cursor: _Cursor) -> tuple[int, int]:
    """Where a tensor ends behind the header, and its bytes."""
    cursor.skip(cursor.number("Q"))  # its name
    values = 1
    for _ in range(cursor.number("I")):
        values *= cursor.number("Q")
    kind, offset = cursor.number("I"), cursor.number("Q")
    in_block, block = _BLOCKS.get(kind, (1, 0))
    length = values // in_block * block
    return offset + length, length


class _Cursor:
    """A place in the header, which is read piece by piece as it is needed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._data = b""
        self._at = 0
        self.offset = 0  # in the file

    def take(self, count: int) -> bytes:
        """The next bytes. Raises NoGgufError where the file ends before."""
        if self._at + count > len(self._data):
            self._refill(count)
        piece = self._data[self._at : self._at + count]
        self._at += count
        self.offset += count
        return piece

    def skip(self, count: int) -> None:
        """Go on without looking."""
        if self._at + count > len(self._data):
            self.take(count)
        else:
            self._at += count
            self.offset += count

    def number(self, form: str) -> int:
        """The next scalar of that struct format."""
        value: int = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]
        return value

    def text(self) -> str:
        """The next string."""
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def _refill(self, count: int) -> None:
        if self.offset + count > HEADER_LIMIT:
            raise NoGgufError(f"its header is longer than {HEADER_LIMIT >> 20} MiB")
        rest = self._data[self._at :]
        self._data = rest + self._file.read(max(count - len(rest), CHUNK))
        self._at = 0
        if len(self._data) < count:
            raise NoGgufError("truncated: it ends within its header")
