"""Refuse, by one table, what the schema knows and llmgw does not do yet: a field must never be ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmgw_reconcile.statefile.finding import Finding, Path
from llmgw_reconcile.statefile.sections import Section
from llmgw_reconcile.statefile.tree import Entries, Items, Node, Scalar, resolve

Field = tuple[str, ...]  # ("gpus", "count")
Asks = Callable[[Node], bool]  # whether a value asks for what is still to come


def _always(_: Node) -> bool:
    return True


def _is_true(node: Node) -> bool:
    return isinstance(node, Scalar) and resolve(node) is True


def _is_above_zero(node: Node) -> bool:
    value = resolve(node) if isinstance(node, Scalar) else 0
    return isinstance(value, int) and value > 0


def _is_several(node: Node) -> bool:
    return isinstance(node, Items) and len(node.nodes) > 1


def _is_surge(node: Node) -> bool:
    return isinstance(node, Scalar) and node.text == "surge"


def _is_chosen(node: Node) -> bool:
    return not (isinstance(node, Scalar) and node.text == "auto")


# A row goes when its behaviour comes.
OF_A_MODEL: Mapping[Field, Asks] = {
    ("engine_version",): _always,
    ("user",): _always,
    ("nodes",): _is_several,
    ("gpus", "count"): _always,
    ("gpus", "share"): _is_true,
    ("update",): _is_surge,
    ("adopt",): _is_true,
    ("moved",): _always,
    ("readiness", "generate"): _is_true,
    ("liveness", "failures"): _is_above_zero,
}
OF_THE_NODE: Mapping[Field, Asks] = {("fabric",): _is_chosen}


def not_supported_yet(root: Node, sections: tuple[Section, ...]) -> Iterator[Finding]:
    """A finding for each field that asks for something of the tables."""
    for section in sections:
        yield from _asked(section.path, section.fields, OF_A_MODEL)
    node = root.fields.get("node") if isinstance(root, Entries) else None
    if isinstance(node, Entries):
        yield from _asked(("node",), node.fields, OF_THE_NODE)


def _asked(path: Path, fields: dict[str, Node], table: Mapping[Field, Asks]) -> Iterator[Finding]:
    for (outer, *inner), asks in table.items():
        value = fields.get(outer)
        for name in inner:
            value = value.fields.get(name) if isinstance(value, Entries) else None
        if value is not None and asks(value):
            place = (*path, outer, *inner)
            yield Finding(value.line, value.column, place, "not-supported-yet", "not supported yet", "leave it out")
