"""Read a tree of small kernel files, /sys or a copy of one: a name below its root becomes what is there, or None.

The root is part of the value, so that a recorded node reads like this one. Any file may be missing, or fail when it is
read; nothing here raises for it.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

Answer = TypeVar("Answer")

READ_LIMIT = 4096  # bytes; sysfs gives no more than a page


class Tree:
    """What lies below `root`."""

    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = root

    def text(self, name: str, limit: int = READ_LIMIT) -> str | None:
        """The first `limit` bytes of a file as text; None for one that is missing or cannot be read."""
        try:
            fd = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            data = os.read(fd, limit)
            while limit > READ_LIMIT and len(data) < limit and (more := os.read(fd, limit - len(data))):
                data += more  # longer files come in pieces
            return data.decode("utf-8", "replace")
        except OSError:
            return None
        finally:
            os.close(fd)

    def names(self, name: str) -> tuple[str, ...] | None:
        """The entries of a directory, sorted as text; None where there is none."""
        try:
            return tuple(sorted(os.listdir(f"{self.root}/{name}")))
        except OSError:
            return None

    def target(self, name: str) -> str | None:
        """The last part of what a symbolic link points to; None where there is no link."""
        try:
            return os.path.basename(os.readlink(f"{self.root}/{name}"))
        except OSError:
            return None

    def place(self, name: str) -> str | None:
        """Where a name leads when all links are followed, relative to the root; None where it leads nowhere."""
        try:
            real = os.path.realpath(f"{self.root}/{name}", strict=True)
        except OSError:
            return None
        return os.path.relpath(real, os.path.realpath(self.root))


class RecordingTree(Tree):
    """The same, and it keeps all that it was asked for, so that another machine can be given the same answers."""

    __slots__ = ("record",)

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.record: dict[str, dict[str, Any]] = {"texts": {}, "names": {}, "targets": {}, "places": {}}

    def text(self, name: str, limit: int = READ_LIMIT) -> str | None:
        """As `Tree.text`; remembered."""
        return self._keep("texts", name, super().text(name, limit))

    def names(self, name: str) -> tuple[str, ...] | None:
        """As `Tree.names`; remembered."""
        return self._keep("names", name, super().names(name))

    def target(self, name: str) -> str | None:
        """As `Tree.target`; remembered."""
        return self._keep("targets", name, super().target(name))

    def place(self, name: str) -> str | None:
        """As `Tree.place`; remembered."""
        return self._keep("places", name, super().place(name))

    def _keep(self, kind: str, name: str, answer: Answer) -> Answer:
        if answer is not None:
            self.record[kind][name] = answer
        return answer
