"""What is said about a code beyond the message that carries it."""

from __future__ import annotations

from typing import NamedTuple


class Explanation(NamedTuple):
    """Why a code appears, and what to do then; whole sentences, for somebody who sees the code for the first time."""

    cause: str
    cure: str
