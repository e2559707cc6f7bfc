"""Turn the text of a state file into blocks: entries in their order, each with its comments and its value as written.

The parser's events tell where every scalar and every flow collection stands; a `#` between those begins a comment. So
nothing is guessed from indentation, and what is inside quotes or a block scalar stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, MappingStartEvent, NodeEvent

from llmgw_reconcile.statefile.document import READER

_BREAK = "[\n\x85\u2028\u2029]"  # what ends a line in YAML 1.1, once \r is gone
_COMMENT = re.compile(f"(?:^|(?<=\\s))#[^{_BREAK[1:]}*", re.MULTILINE)
_KEEPS_END = re.compile(r"(?:&\S+\s+)?[|>][0-9]?\+")  # a block scalar whose last empty lines are part of its text


class Comment(NamedTuple):
    """A comment, on a line of its own or behind something."""

    text: str
    line: int
    column: int
    after_blank: bool


class Leaf(NamedTuple):
    """A scalar, an alias, or a flow collection over several lines: as written, indentation included from line 2 on."""

    lines: tuple[str, ...]


class Flow(NamedTuple):
    """A flow collection on one line: keys as written and as meant, and values; items have no keys."""

    is_mapping: bool
    anchor: str
    pairs: tuple[tuple[str, str, str | Flow], ...]


class Entry(NamedTuple):
    """A key with its value, or an item (`key` empty)."""

    key: str  # as written
    name: str  # as meant
    lead: tuple[Comment, ...]  # the comments above it
    after_blank: bool
    value: Leaf | Flow | Block
    behind: tuple[Comment, ...]  # the comments on its line


class Block(NamedTuple):
    """A mapping or a sequence in block style; `column` is where its keys or dashes stand."""

    is_mapping: bool
    anchor: str  # `&name`, or nothing
    column: int
    entries: tuple[Entry, ...]
    tail: tuple[Comment, ...]  # the comments below the last entry


class Source(NamedTuple):
    """A whole file."""

    root: Block
    has_aliases: bool  # an alias must stay behind its anchor, so entries cannot change places


def blocks_of(text: str) -> Source | None:
    """The blocks of a file that `parse_document` accepts; None when it is one flow collection, as JSON is."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    parsed = yaml.parse(text, Loader=READER)  # type: ignore[arg-type]  # a loader, whichever PyYAML was built with
    events: list[Any] = [event for event in parsed if isinstance(event, NodeEvent | CollectionEndEvent)]
    if not isinstance(events[0], MappingStartEvent) or events[0].flow_style:
        return None
    return Source(_Reader(text, events).whole(), any(isinstance(event, AliasEvent) for event in events))


class _Reader:
    """Walks the events once, and hands every comment to the entry that it belongs to."""

    def __init__(self, text: str, events: list[Any]) -> None:
        self._text = text
        self._starts = [0, *(found.end() for found in re.finditer(_BREAK, text)), len(text) + 1]
        self._events = iter(events)
        self._comments = deque(self._find_comments(events))

    def whole(self) -> Block:
        root = self._block(next(self._events))
        return root._replace(tail=(*root.tail, *self._comments))

    def _block(self, start: Any) -> Block:
        is_mapping = isinstance(start, MappingStartEvent)
        column = start.start_mark.column
        entries: list[Entry] = []
        while not isinstance(event := next(self._events), CollectionEndEvent):
            if start.anchor is not None and not entries:  # the start is where the anchor stands
                column = max(0, event.start_mark.column - (0 if is_mapping else 2))
            entries.append(self._entry(event, is_mapping=is_mapping))
        tail = self._below(column, event.start_mark)
        return Block(is_mapping, _anchor(start), column, tuple(entries), tail)

    def _entry(self, event: Any, *, is_mapping: bool) -> Entry:
        line = event.start_mark.line
        lead, after_blank, key, name, behind = self._above(line), self._is_blank(line - 1), "", "", []
        if is_mapping:
            key, name, line = self._written(event), getattr(event, "value", ""), event.end_mark.line
            event = next(self._events)
            if event.start_mark.line > line or not _is_leaf(event):
                behind += self._on(line)
        value = self._leaf(event) if _is_leaf(event) else self._block(event)
        if not isinstance(value, Block):
            behind += self._on(self._line)
        return Entry(key, name, lead, after_blank, value, tuple(behind))

    def _leaf(self, event: Any) -> Leaf | Flow:
        """A value that is no block; `_line` is then the line that it ends on."""
        begin, end, flow = event.start_mark, event.end_mark, None
        if isinstance(event, CollectionStartEvent):
            flow, end = self._flow(event)
        self._line = end.line
        if flow is not None and begin.line == end.line:
            return flow
        written = self._text[begin.index : end.index]
        lines = written.split("\n")
        if getattr(event, "style", None) in ("|", ">"):
            self._line = -1  # it ends with its line, and takes a comment in its head along
            lines = lines[: -1 if not lines[-1] else None] if _KEEPS_END.match(written) else _without_end(lines)
        return Leaf(tuple(lines))

    def _flow(self, start: Any) -> tuple[Flow, Any]:
        """A flow collection, and the mark of its end."""
        pairs, is_mapping = [], isinstance(start, MappingStartEvent)
        while not isinstance(event := next(self._events), CollectionEndEvent):
            key, name = "", ""
            if is_mapping:
                key, name = self._written(event), getattr(event, "value", "")
                event = next(self._events)
            inner = isinstance(event, CollectionStartEvent)
            pairs.append((key, name, self._flow(event)[0] if inner else self._written(event)))
        return Flow(is_mapping, _anchor(start), tuple(pairs)), event.end_mark

    def _written(self, event: Any) -> str:
        return self._text[event.start_mark.index : event.end_mark.index]

    # -- comments, in the order of the file

    def _above(self, line: int) -> tuple[Comment, ...]:
        found = []
        while self._comments and self._comments[0].line < line:
            found.append(self._comments.popleft())
        return tuple(found)

    def _on(self, line: int) -> list[Comment]:
        return [self._comments.popleft()] if self._comments and self._comments[0].line == line else []

    def _below(self, column: int, end: Any) -> tuple[Comment, ...]:
        """Comments indented like the block that ends, and deeper than what comes next: a field that was set aside."""
        found = []
        while self._comments and self._comments[0].line < end.line and self._comments[0].column >= column > end.column:
            found.append(self._comments.popleft())
        return tuple(found)

    def _find_comments(self, events: list[Any]) -> Iterator[Comment]:
        last = 0
        for begin, end in [*_leaf_spans(events), (len(self._text), 0)]:
            for found in _COMMENT.finditer(self._text, last, begin):
                line = bisect_right(self._starts, found.start()) - 1
                column = found.start() - self._starts[line]
                yield Comment(found[0].rstrip(), line, column, self._is_blank(line - 1))
            last = end

    def _is_blank(self, line: int) -> bool:
        return line >= 0 and not self._text[self._starts[line] : self._starts[line + 1]].strip()


def _leaf_spans(events: list[Any]) -> Iterator[tuple[int, int]]:
    """Where scalars and whole flow collections stand."""
    open_flows: list[bool] = []  # of each collection that is open, whether it is one in flow style
    begin = 0
    for event in events:
        is_start, is_end = isinstance(event, CollectionStartEvent), isinstance(event, CollectionEndEvent)
        if not is_end and True not in open_flows:
            begin = event.start_mark.index
        if is_start:
            open_flows.append(bool(event.flow_style))
        was_leaf = open_flows.pop() if is_end else not is_start
        if was_leaf and True not in open_flows:
            yield begin, event.end_mark.index


def _is_leaf(event: Any) -> bool:
    return not isinstance(event, CollectionStartEvent) or bool(event.flow_style)


def _anchor(start: Any) -> str:
    return "" if start.anchor is None else f"&{start.anchor}"


def _without_end(lines: list[str]) -> list[str]:
    while not lines[-1].strip():
        lines = lines[:-1]
    return lines
