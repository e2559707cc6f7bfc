"""What an installed engine says of itself: its version and its flags."""

from __future__ import annotations

from typing import NamedTuple


class Option(NamedTuple):
    """One option, in all its spellings."""

    names: tuple[str, ...]
    takes_value: bool = False
    choices: tuple[str, ...] = ()  # empty: any value
    default: str | None = None  # as printed
    removed: str | None = None  # the engine still lists it, to refuse it; what it says to do instead

    @property
    def name(self) -> str:
        """The spelling to call it by: the first long one."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


class Installed(NamedTuple):
    """What is known of an installed engine; `options` is empty when its flags are not known."""

    version: str | None = None
    options: tuple[Option, ...] = ()
