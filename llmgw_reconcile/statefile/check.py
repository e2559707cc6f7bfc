"""Compare a positioned tree with a JSON Schema, and say all that is wrong in words that help.

Only the part of draft-07 that schemas/state.schema.json uses is understood; tests hold this against the jsonschema
package, which would cost every plan more to import than the rest of the state file takes.
"""

from __future__ import annotations

import re

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.statefile.finding import Finding, Path, printable
from llmgw_reconcile.statefile.tree import Broken, Entries, Items, Node, Scalar, Value, resolve
from llmgw_reconcile.statefile.wording import (
    Schema,
    empty_hint,
    expected,
    found_word,
    key_hint,
    type_hint,
    types_of,
    value_hint,
)

# What stands below these keys may be a secret: it is named by its place and never shown.
HIDDEN_FIELDS = frozenset({"env", "api_key", "args", "prefix"})
# Scalars that other YAML readers take for nothing; here they are text.
NULL_WORDS = frozenset({"null", "Null", "NULL", "~"})
MOST_ERRORS = 500  # a file that is wrong in more places is wrong in one way

_USERINFO = re.compile(r"(?<=://)[^/\s]+(?=@)")  # of a URL
_NOTHING: Schema = {"enum": ()}
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def check(root: Node, schema: Schema) -> list[Finding]:
    """All findings about `root`, up to the 500th error.

    No finding shows a value from below `env`, `args`, `prefix` or `api_key`.
    """
    checker = _Checker(schema)
    try:
        checker.node(root, schema, (), hidden=False)
    except _EnoughError:
        pass
    return checker.findings


class _EnoughError(Exception):
    """So much is wrong that more of it helps nobody."""


class _Checker:
    def __init__(self, schema: Schema) -> None:
        self.definitions: dict[str, Schema] = schema.get("definitions", {})
        self.findings: list[Finding] = []
        self.errors = 0

    def report(self, place: Node, path: Path, code: str, message: str, hint: str = "") -> None:
        self.findings.append(Finding(place.line, place.column, path, code, message, hint))
        self.errors += 1
        if self.errors >= MOST_ERRORS:
            raise _EnoughError

    def resolved(self, schema: Schema) -> Schema:
        """The schema, or the definition it refers to; what stands beside a `$ref` does not count."""
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].removeprefix("#/definitions/")]
        return schema

    def node(self, node: Node, schema: Schema, path: Path, *, hidden: bool) -> None:
        schema = self.resolved(schema)
        if isinstance(node, Scalar):
            self.scalar(node, schema, path, hidden=hidden)
        elif isinstance(node, Broken):
            self.report(node, path, node.code, node.message, node.hint)
        elif isinstance(node, Items):
            if "array" in types_of(schema):
                self.items(node, schema, path, hidden=hidden)
            else:
                self.unexpected(node, path, "wrong-type", "a list", schema)
        elif "object" in types_of(schema):
            self.entries(node, schema, path, hidden=hidden)
        else:
            self.unexpected(node, path, "wrong-type", "a mapping", schema)

    def unexpected(self, node: Node, path: Path, code: str, found: str, schema: Schema, hint: str = "") -> None:
        self.report(node, path, code, f"found {found}, expected {expected(schema, self.resolved)}", hint)

    def scalar(self, node: Scalar, schema: Schema, path: Path, *, hidden: bool) -> None:
        if node.plain and not node.text:
            self.report(node, path, "empty-value", "empty value", empty_hint(schema))
            return
        value, types = resolve(node), types_of(schema)
        name = _TYPE_NAMES[type(value)]
        if name not in types and not (name == "integer" and "number" in types):
            found, hint = _found(node, value, hidden=hidden), type_hint(node, value, schema)
            self.unexpected(node, path, "wrong-type", found, schema, hint)
        elif _violates(value, schema):
            found, hint = _found(node, value, hidden=hidden), "" if hidden else value_hint(node.text, schema)
            self.unexpected(node, path, "wrong-value", found, schema, hint)
        elif node.plain and node.text in NULL_WORDS and "number" not in types:  # with it, any scalar is as written
            self.findings.append(_null_warning(node, path))

    def items(self, node: Items, schema: Schema, path: Path, *, hidden: bool) -> None:
        self.size(len(node.nodes), node, "Items", schema, path)
        seen: dict[object, Node] = {}
        for index, item in enumerate(node.nodes):
            self.node(item, schema["items"], (*path, index), hidden=hidden)
            if schema.get("uniqueItems"):
                value = _comparable(item)
                if value in seen:
                    self.report(item, (*path, index), "duplicate-item", f"given twice, first {_at(seen[value], item)}")
                seen.setdefault(value, item)

    def entries(self, node: Entries, schema: Schema, path: Path, *, hidden: bool) -> None:
        seen: dict[str, Scalar] = {}
        for key, value in node.pairs:
            if isinstance(key, Broken):
                self.report(key, path, key.code, key.message, key.hint)
                continue
            below = (*path, _shown_key(key.text, schema) if hidden else key.text)
            if key.text in seen:
                message = f"key given twice, first {_at(seen[key.text], key)}"
                self.report(key, below, "duplicate-key", message, "remove one of them")
            else:
                self.entry(key, value, schema, below, hidden=hidden)
            seen.setdefault(key.text, key)
        for name in schema.get("required", ()):
            if name not in seen:
                wanted = expected(schema["properties"][name], self.resolved)
                self.report(node, (*path, name), "missing-key", f"missing, expected {wanted}")
        self.size(len(seen), node, "Properties", schema, path)

    def entry(self, key: Scalar, value: Node, schema: Schema, path: Path, *, hidden: bool) -> None:
        """One key and its value; `path` ends with the key."""
        known = schema.get("properties", {})
        if key.text in known:
            self.node(value, known[key.text], path, hidden=hidden or key.text in HIDDEN_FIELDS)
        elif key.plain and key.text == "<<":
            self.report(key, path, "merge-key", "merge keys are not supported", "use `defaults:` for what models share")
        elif not schema.get("additionalProperties", False):
            self.report(key, path, "unknown-key", "unknown key", key_hint("" if hidden else key.text, known))
        else:
            rule = schema["propertyNames"]
            if _violates(key.text, rule):
                self.report(key, path, "wrong-key", f"a key here must be {expected(rule, self.resolved)}")
            self.node(value, schema["additionalProperties"], path, hidden=hidden)

    def size(self, size: int, node: Node, noun: str, schema: Schema, path: Path) -> None:
        """Report a list or mapping that is too short or too long; `noun` as in minItems and minProperties."""
        least, most = schema.get(f"min{noun}", 0), schema.get(f"max{noun}", size)
        if not least <= size <= most:
            bound = f"at least {least}" if size < least else f"at most {most}"
            message = f"found {size} {noun.lower()}, expected {bound}: {expected(schema, self.resolved)}"
            self.report(node, path, "wrong-size", message)


def _shown_key(text: str, schema: Schema) -> str:
    """A key of a hidden mapping as it may be shown: `{hunter2}` is a key without a value."""
    known = text in schema.get("properties", {})
    return text if known or not _violates(text, schema.get("propertyNames", _NOTHING)) else "?"


def _null_warning(node: Scalar, path: Path) -> Finding:
    message, hint = f"{node.text} is taken as text", "leave the key out where nothing is meant, or quote the word"
    return Finding(node.line, node.column, path, "null-is-text", message, hint, Severity.WARNING)


def _violates(value: Value, schema: Schema) -> bool:
    """Whether a scalar of an admitted type breaks another of the schema's rules for that type."""
    if isinstance(value, str):
        return (
            ("pattern" in schema and not re.fullmatch(schema["pattern"], value))
            or ("enum" in schema and value not in schema["enum"])
            or not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        )
    if isinstance(value, bool):
        return False
    return (
        not schema.get("minimum", value) <= value <= schema.get("maximum", value)
        or ("exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"])
        or ("const" in schema and value != schema["const"])
    )


def _comparable(node: Node) -> object:
    """Equal for nodes that mean the same."""
    if isinstance(node, Scalar):
        value = resolve(node)
        return type(value), value
    if isinstance(node, Items):
        return tuple(map(_comparable, node.nodes))
    if isinstance(node, Entries):
        return frozenset((key, _comparable(value)) for key, value in node.fields.items())
    return node


def _found(node: Scalar, value: Value, *, hidden: bool) -> str:
    if hidden:
        return found_word(value)
    shown = printable(_USERINFO.sub("…", node.text))
    return f"{found_word(value)} '{shown}'" if isinstance(value, str) else f"{found_word(value)} {shown}"


def _at(first: Node, second: Node) -> str:
    """Where the first of two stands, seen from the second."""
    return f"at column {first.column}" if first.line == second.line else f"at line {first.line}"
