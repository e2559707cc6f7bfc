"""Lay a state file out canonically: the contract's order of keys, two spaces a level, a blank line between models.

Comments stay with what they speak of, values and the style of collections as they are written. A key that changes
places takes along the comments above it, except those above the first key of a file or of an item: they speak of the
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmgw_reconcile.statefile.blocks import Block, Comment, Entry, Flow, blocks_of
from llmgw_reconcile.statefile.document import decode, parse_document
from llmgw_reconcile.statefile.tree import Entries, Items, Node, Scalar
from llmgw_reconcile.statefile.wording import Schema

INDENT = 2
GAP = 2  # blanks before a comment behind a value


def canonical_layout(data: bytes, schema: Schema) -> bytes:
    """The file laid out anew, in UTF-8. `data` is a state file that loads, `schema` that of state files.

    A file that is one flow collection, as JSON is, stays as it is; so does the order of keys in one with aliases.
    """
    source = blocks_of(decode(data))
    if source is None:
        return data
    first, *others = source.root.entries
    lines = _with_lead([], first.lead, 0)
    root = source.root._replace(entries=(first._replace(lead=()), *others))
    lines = _Layout(schema, sorts=not source.has_aliases).block(root, schema, 0, lines)
    return "".join(f"{line}\n" for line in lines).encode()


def same_meaning(one: bytes, other: bytes) -> bool:
    """Whether two state files say the same: scalars as written and quoted, keys in any order, aliases resolved."""
    return _meaning(parse_document(one)) == _meaning(parse_document(other))


class _Layout:
    """Writes blocks; a schema goes down with them, for the order of the keys."""

    def __init__(self, schema: Schema, *, sorts: bool) -> None:
        self._definitions: Mapping[str, Schema] = schema.get("definitions", {})
        self._sorts = sorts

    def block(
        self, block: Block, schema: Schema, indent: int, lines: list[str], *, are_models: bool = False
    ) -> list[str]:
        """The lines of a block behind `lines`."""
        schema = self._resolved(schema)
        shift = indent - block.column
        for place in self._order([entry.name for entry in block.entries], schema):
            entry = block.entries[place]
            if are_models:
                _separate(lines)
            _with_lead(lines, entry.lead, indent)
            if entry.after_blank:
                _separate(lines)
            lines += self._entry(entry, _below(schema, entry.name), indent, shift)
        return _with_lead(lines, block.tail, indent)

    def _entry(self, entry: Entry, schema: Schema, indent: int, shift: int) -> list[str]:
        head = " " * indent + (f"{entry.key}:" if entry.key else "-")
        value = entry.value
        if isinstance(value, Block):
            are_models = indent == 0 and entry.name == "models"
            below = self.block(value, schema, indent + INDENT, [], are_models=are_models)
            if not entry.key and not value.anchor:
                return _behind_dash(below, indent)
            return [_with_comments(f"{head} {value.anchor}".rstrip(), entry.behind, shift), *below]
        if isinstance(value, Flow):
            return [_with_comments(f"{head} {self._flow(value, schema)}", entry.behind, shift)]
        lines = [f"{head} {value.lines[0]}", *(_shifted(line, shift) for line in value.lines[1:])]
        return [*lines[:-1], _with_comments(lines[-1], entry.behind, shift)]

    def _flow(self, flow: Flow, schema: Schema) -> str:
        schema = self._resolved(schema)
        texts = []
        for place in self._order([name for _, name, _ in flow.pairs], schema):
            key, name, value = flow.pairs[place]
            text = self._flow(value, _below(schema, name)) if isinstance(value, Flow) else value
            texts.append(f"{key}: {text}" if flow.is_mapping else text)
        inner = ", ".join(texts)
        anchor = f"{flow.anchor} " if flow.anchor else ""
        return f"{anchor}{{{inner}}}" if flow.is_mapping else f"{anchor}[{inner}]"

    def _order(self, names: list[str], schema: Schema) -> list[int]:
        """Places in the order in which the schema lists its properties; what it does not list keeps its place."""
        rank = {name: place for place, name in enumerate(schema.get("properties", ()))} if self._sorts else {}
        return sorted(range(len(names)), key=lambda place: rank.get(names[place], len(rank)))

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].removeprefix("#/definitions/")]
        return schema


def _below(schema: Schema, name: str) -> Schema:
    below: Schema = schema.get("properties", {}).get(name) or schema.get("items") or {}
    return below


def _separate(lines: list[str]) -> None:
    if lines and lines[-1]:
        lines.append("")


def _with_lead(lines: list[str], comments: Iterable[Comment], indent: int) -> list[str]:
    for comment in comments:
        if comment.after_blank:
            _separate(lines)
        lines.append(" " * indent + comment.text)
    return lines


def _with_comments(line: str, comments: tuple[Comment, ...], shift: int) -> str:
    """The line with the comments behind it, where they stood if there is room."""
    if not comments:
        return line
    column = max(len(line) + GAP, comments[0].column + shift)
    return f"{line:<{column}}{'  '.join(comment.text for comment in comments)}"


def _behind_dash(lines: list[str], indent: int) -> list[str]:
    """A block as an item: its first key stands behind the dash, and the comments above that key above the dash."""
    first = next(place for place, line in enumerate(lines) if line and not line.lstrip().startswith("#"))
    above = [" " * indent + line.strip() if line else "" for line in lines[:first]]
    return [*above, f"{' ' * indent}- {lines[first][indent + INDENT :]}", *lines[first + 1 :]]


def _shifted(line: str, shift: int) -> str:
    """A line of a value moved along with its key; never less than its own indentation allows."""
    if shift >= 0:
        return " " * shift + line if line else line
    return line[min(-shift, len(line) - len(line.lstrip(" "))) :]


def _meaning(node: Node) -> object:
    if isinstance(node, Scalar):
        return node.text, node.plain
    if isinstance(node, Items):
        return tuple(map(_meaning, node.nodes))
    if isinstance(node, Entries):
        return frozenset((key, _meaning(value)) for key, value in node.fields.items())
    return node
