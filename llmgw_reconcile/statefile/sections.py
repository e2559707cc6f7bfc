"""Find the places of a state file that hold fields of a model: `defaults:` and each entry of `models:`."""

from __future__ import annotations

import re
from typing import NamedTuple

from llmgw_reconcile.statefile.finding import Path
from llmgw_reconcile.statefile.tree import Entries, Items, Node, Scalar


class Section(NamedTuple):
    """One such place; `fields` may still be wrong in themselves."""

    path: Path
    place: Entries
    fields: dict[str, Node]

    @property
    def args(self) -> tuple[Node, ...]:
        """The items of `args`."""
        node = self.fields.get("args")
        return node.nodes if isinstance(node, Items) else ()

    @property
    def literals(self) -> dict[str, Scalar]:
        """The variables whose value stands in the file; a name that is none is left out, for it may be a secret."""
        env = self.fields.get("env")
        named = env.fields.items() if isinstance(env, Entries) else ()
        return {
            name: value
            for name, value in named
            if isinstance(value, Scalar) and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name)
        }


def defaults_of(root: Node) -> Section | None:
    """The `defaults:` of a file; None without."""
    node = root.fields.get("defaults") if isinstance(root, Entries) else None
    return Section(("defaults",), node, node.fields) if isinstance(node, Entries) else None


def models_of(root: Node) -> tuple[Section, ...]:
    """The entries of `models:` in the order of the file, less those that are no mappings."""
    node = root.fields.get("models") if isinstance(root, Entries) else None
    if not isinstance(node, Items):
        return ()
    return tuple(
        Section(("models", index), entry, entry.fields)
        for index, entry in enumerate(node.nodes)
        if isinstance(entry, Entries)
    )
