"""Refuse, by one table, what the schema knows and llmgw does not do yet: a field must never be ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmgw_reconcile.statefile.finding import Finding, Path
from llmgw_reconcile.statefile.sections import Section
from llmgw_reconcile.statefile.tree import Entries, Node, Scalar, resolve

Field = tuple[str, ...]  # ("gpus", "share")
Asks = Callable[[Node], bool]  # whether a value asks for what is still to come


def _always(_: Node) -> bool:
    return True


def _is_true(node: Node) -> bool:
    return isinstance(node, Scalar) and resolve(node) is True


def _is_surge(node: Node) -> bool:
    return isinstance(node, Scalar) and node.text == "surge"


# A row goes when its behaviour comes.
OF_A_MODEL: Mapping[Field, Asks] = {
    ("user",): _always,
    ("gpus", "share"): _is_true,
    ("update",): _is_surge,
    ("adopt",): _is_true,
    ("moved",): _always,
    ("readiness", "generate"): _is_true,
}


def not_supported_yet(sections: tuple[Section, ...]) -> Iterator[Finding]:
    """A finding for each field that asks for something of the table."""
    for section in sections:
        yield from _asked(section.path, section.fields)


def _asked(path: Path, fields: dict[str, Node]) -> Iterator[Finding]:
    for (outer, *inner), asks in OF_A_MODEL.items():
        value = fields.get(outer)
        for name in inner:
            value = value.fields.get(name) if isinstance(value, Entries) else None
        if value is not None and asks(value):
            place = (*path, outer, *inner)
            yield Finding(value.line, value.column, place, "not-supported-yet", "not supported yet", "leave it out")
