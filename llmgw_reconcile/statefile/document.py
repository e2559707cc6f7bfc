"""Turn the bytes of a YAML file into a tree in which every node knows its line and column.

It is built from the parser's events alone: PyYAML's constructors lose positions and duplicate keys, and read `no` as
a boolean. Nothing is ever made from a tag.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import yaml
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, StreamEndEvent

from llmgw_reconcile.statefile.finding import Finding
from llmgw_reconcile.statefile.tree import Broken, Entries, Items, Node, Scalar

MAX_DEPTH = 32
# What aliases may add to the document, in characters as if it were written out: a bomb of 300 bytes is 10**9 of them.
MAX_EXPANSION = 2_000_000
NODE_WEIGHT = 8  # characters charged for a node beside its text

# What YAML itself does not allow unless it is written as an escape; the line breaks and the tab are no part of it.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_NO_CHARACTER = re.compile("[\ufeff\ufffe\uffff]")
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

# libyaml where PyYAML was built with it, eight times as quick; else the same events from pure Python.
Reader = Callable[[str], Any]
READER: Reader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableError(Exception):
    """The bytes are no single YAML document; `finding` says where and why, and never quotes them."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.message)


def parse_document(data: bytes, reader: Reader = READER) -> Node:
    """The one document in `data`. Raises UnreadableError for anything else, an empty file included."""
    text = decode(data)
    try:
        return _Builder(reader(text).get_event).document()
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the latter two from pure Python, of absurd escapes
        raise UnreadableError(_syntax_finding(error, text)) from None


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, or UTF-16 with a byte order mark. Raises UnreadableError."""
    encoding = "utf-8"
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            break
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace")
        raise UnreadableError(
            _finding_at(before, "yaml-encoding", f"a byte that is not {encoding.upper()}", "save the file as UTF-8")
        ) from None
    if foreign := _CONTROL.search(text) or _NO_CHARACTER.search(text):
        before, code = text[: foreign.start()], ord(foreign[0])
        raise UnreadableError(
            _finding_at(before, "yaml-character", f"the character U+{code:04X} is not allowed in YAML", "remove it")
        )
    return text


def _finding_at(before: str, code: str, message: str, hint: str) -> Finding:
    """A finding at the end of `before`, the text that precedes it."""
    line_start = before.rfind("\n") + 1
    return Finding(before.count("\n") + 1, len(before) - line_start + 1, (), code, message, hint)


class _Anchor(NamedTuple):
    node: Node
    weight: int
    height: int  # levels below it


class _Builder:
    """Builds the tree, and charges every alias for all that it repeats."""

    def __init__(self, next_event: Callable[[], Any]) -> None:
        self.next_event = next_event
        self.anchors: dict[str, _Anchor] = {}
        self.weight = 0
        self.expanded = 0
        self.deepest = 0

    def document(self) -> Node:
        self.next_event()  # the start of the stream
        start = self.next_event()
        if type(start) is StreamEndEvent:
            raise UnreadableError(_empty(1, 1))
        root = self.node(self.next_event(), 1)
        self.next_event()  # the end of the document
        more = self.next_event()
        if type(more) is not StreamEndEvent:
            raise UnreadableError(
                Finding(*_place(more), (), "yaml-documents", "a second document begins", "keep one document in a file")
            )
        if isinstance(root, Scalar) and root.plain and not root.text:
            raise UnreadableError(_empty(root.line, root.column))
        return root

    def node(self, event: Any, depth: int) -> Node:
        if type(event) is AliasEvent:
            return self.alias(event, depth)
        return self.value(event, depth) if event.anchor is None else self.anchored(event, depth)

    def anchored(self, event: Any, depth: int) -> Node:
        weight, deepest = self.weight, self.deepest
        self.deepest = depth
        node = self.value(event, depth)
        self.anchors[event.anchor] = _Anchor(node, self.weight - weight, self.deepest - depth)
        self.deepest = max(self.deepest, deepest)
        return node

    def value(self, event: Any, depth: int) -> Node:
        node = self.scalar(event) if type(event) is ScalarEvent else self.collection(event, depth)
        if event.tag is None:
            return node
        return Broken("yaml-tag", "tags are not allowed here", "remove the tag, or quote text with !", *_place(event))

    def scalar(self, event: Any) -> Node:
        text: str = event.value
        self.weight += NODE_WEIGHT + len(text)
        style = event.style
        if style == '"' and ("\0" in text or not _is_encodable(text)):  # only an escape can bring them in
            return Broken("yaml-character", "a NUL, or half of a surrogate pair", "remove the escape", *_place(event))
        mark = event.start_mark
        return Scalar(text, not style, mark.line + 1, mark.column + 1)

    def collection(self, event: Any, depth: int) -> Entries | Items:
        self.weight += NODE_WEIGHT
        self.reach(event, depth)
        return self.entries(event, depth) if type(event) is MappingStartEvent else self.items(event, depth)

    def items(self, start: Any, depth: int) -> Items:
        nodes = []
        while type(event := self.next_event()) is not SequenceEndEvent:
            nodes.append(self.node(event, depth + 1))
        return Items(tuple(nodes), *_place(start))

    def entries(self, start: Any, depth: int) -> Entries:
        pairs = []
        while type(event := self.next_event()) is not MappingEndEvent:
            key = self.node(event, depth + 1)
            if isinstance(key, (Entries, Items)):
                hint = "quote text that begins with { or ["
                key = Broken("yaml-key", "a key cannot be a list or a mapping", hint, key.line, key.column)
            pairs.append((key, self.node(self.next_event(), depth + 1)))
        return Entries(tuple(pairs), *_place(start))

    def alias(self, event: Any, depth: int) -> Node:
        anchor = self.anchors.get(event.anchor)
        if anchor is None:
            hint = "quote text that begins with *"
            return Broken("yaml-alias", "an alias without a finished anchor before it", hint, *_place(event))
        self.reach(event, depth + anchor.height)
        self.weight += anchor.weight
        self.expanded += anchor.weight
        if self.expanded > MAX_EXPANSION:
            raise UnreadableError(
                Finding(*_place(event), (), "yaml-alias", "aliases repeat too much", "write it out or use `defaults:`")
            )
        return anchor.node

    def reach(self, event: Any, depth: int) -> None:
        """Take note of a depth, and refuse one that a recursive walk would not come back from."""
        self.deepest = max(self.deepest, depth)
        if depth > MAX_DEPTH:
            raise UnreadableError(
                Finding(*_place(event), (), "yaml-depth", f"nested more than {MAX_DEPTH} levels deep", "flatten it")
            )


def _is_encodable(text: str) -> bool:
    """False for text with half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(event: Any) -> tuple[int, int]:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1


def _empty(line: int, column: int) -> Finding:
    return Finding(line, column, (), "state-empty", "the file is empty", "begin with `version: 1` and `models: []`")


# What stands where the parser stopped, and what people mean by it.
_SYNTAX_HINTS = {
    "\t": "indent with spaces, not with tabs",
    "\xa0": "indent with plain spaces: this one is a no-break space",
    "%": "quote text that begins with %",
    "@": "quote text that begins with @",
    "`": "quote text that begins with a backtick",
}


def _syntax_finding(error: Exception, text: str) -> Finding:
    """Where and why the parser stopped, in its words, without any of the file's text: it may be a secret."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    begun = getattr(error, "context_mark", None)
    line, column = (mark.line, mark.column) if mark else (0, 0)
    words = [_unquoted(getattr(error, "problem", None)) or "no YAML"]
    if context := _unquoted(getattr(error, "context", None)):
        words.append(f"{context} begun at line {begun.line + 1}" if begun and begun.line != line else context)
    rows = text.split("\n", line + 1)
    found = rows[line][column : column + 1] if line < len(rows) else ""
    hint = _SYNTAX_HINTS.get(found, "check indentation, colons and quotes there and in the line before")
    return Finding(line + 1, column + 1, (), "yaml-syntax", f"cannot read the YAML: {' '.join(words)}", hint)


def _unquoted(words: str | None) -> str:
    """The parser's words less any name that pure Python quotes from the file; marks such as ':' and '<scalar>' stay."""
    return re.sub(r"""\s*(['"])[^'"\s<][^'"\s]+\1""", "", words or "")
