"""A YAML document as a tree that keeps what a dictionary would lose: positions, duplicate keys, quotation marks."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?")
_MOST_DIGITS = 400  # int() refuses a few thousand; no number of a state file comes near either
_BEYOND_ALL: int = 10**_MOST_DIGITS


class Scalar(NamedTuple):
    """A scalar as written; `plain` when it has no quotes and may therefore mean a boolean or a number."""

    text: str
    plain: bool
    line: int
    column: int


class Entries(NamedTuple):
    """A mapping, duplicate keys and all, in the order of the file."""

    pairs: tuple[tuple[Scalar | Broken, Node], ...]
    line: int
    column: int

    @property
    def fields(self) -> dict[str, Node]:
        """The values by key; of a key given twice the first."""
        found: dict[str, Node] = {}
        for key, value in self.pairs:
            if isinstance(key, Scalar):
                found.setdefault(key.text, value)
        return found


class Items(NamedTuple):
    """A sequence."""

    nodes: tuple[Node, ...]
    line: int
    column: int


class Broken(NamedTuple):
    """A place that YAML allows and a state file does not: what is wrong there stands for its value."""

    code: str
    message: str
    hint: str
    line: int
    column: int


Node = Scalar | Entries | Items | Broken
Value = str | bool | int | float


def resolve(scalar: Scalar) -> Value:
    """What a scalar means: `true` and `false`, plain decimal numbers, and text for everything else.

    >>> [resolve(Scalar(text, True, 1, 1)) for text in ("true", "8000", "0.9", "no", "1e3", "010", "0x10")]
    [True, 8000, 0.9, 'no', '1e3', '010', '0x10']
    >>> resolve(Scalar("8000", False, 1, 1))
    '8000'
    """
    text = scalar.text
    if not scalar.plain:
        return text
    if text in ("true", "false"):
        return text == "true"
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if number[1]:
        return float(text)
    if len(text) > _MOST_DIGITS:
        return -_BEYOND_ALL if text[0] == "-" else _BEYOND_ALL
    return int(text)
