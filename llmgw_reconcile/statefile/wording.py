"""Turn what a schema expects, and what was found instead, into plain words and the next step."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from llmgw_reconcile.statefile.tree import Scalar, Value

Schema = dict[str, Any]

_OTHER_BOOLEANS = frozenset({"yes", "no", "on", "off", "y", "n", "true", "false"})
_MOST_LISTED = 3  # keys that a message lists to say what a mapping is
_MOST_KNOWN = 8  # keys that a hint lists to say what else there is


def types_of(schema: Schema) -> Sequence[str]:
    """The types that a schema admits."""
    types: str | list[str] = schema["type"]
    return (types,) if isinstance(types, str) else types


def found_word(value: Value) -> str:
    """The kind of a scalar, with its article.

    >>> [found_word(value) for value in (True, 8000, 0.5, "x")]
    ['the boolean', 'the integer', 'the fraction', 'the text']
    """
    if isinstance(value, bool):
        return "the boolean"
    if isinstance(value, int):
        return "the integer"
    return "the fraction" if isinstance(value, float) else "the text"


def expected(schema: Schema, resolved: Callable[[Schema], Schema]) -> str:
    """What the schema wants, in words; `resolved` follows its references.

    >>> expected({"type": "integer", "minimum": 1024, "maximum": 65535}, lambda schema: schema)
    'an integer from 1024 to 65535'
    """
    schema = resolved(schema)
    types = types_of(schema)
    if "string" in types and "number" in types:  # any scalar, as it is written
        types = [name for name in types if name not in ("number", "boolean")]
    return " or ".join(_words_for(name, schema) for name in types)


def _words_for(name: str, schema: Schema) -> str:
    match name:
        case "string":
            return _text_words(schema)
        case "boolean":
            return "true or false"
        case "array":
            return "a list"
        case "object":
            return _mapping_words(schema)
        case _:
            return _number_words("an integer" if name == "integer" else "a number", schema)


def _mapping_words(schema: Schema) -> str:
    known = list(schema.get("properties", {}))
    if not 0 < len(known) <= _MOST_LISTED:
        return "a mapping"
    return f"a mapping with {(' and ' if known == schema.get('required') else ' or ').join(known)}"


def _number_words(noun: str, schema: Schema) -> str:
    if "const" in schema:
        return str(schema["const"])
    if "exclusiveMinimum" in schema:
        return f"{noun} above {schema['exclusiveMinimum']} and at most {schema['maximum']}"
    return f"{noun} from {schema['minimum']} to {schema['maximum']}"


def _text_words(schema: Schema) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    title: str = schema["title"]
    return f"{title} such as {', '.join(schema['examples'])}" if "examples" in schema else title


def empty_hint(schema: Schema) -> str:
    """What to write where nothing stands."""
    types = types_of(schema)
    if "number" in types and "string" in types:
        return 'write "" for empty text'
    empty = {"array": "[] for an empty list, or ", "object": "{} for an empty mapping, or "}.get(types[0], "")
    return f"write {empty}a value, or leave the key out"


def type_hint(node: Scalar, value: Value, schema: Schema) -> str:
    """How to write the scalar so that it has a type the schema admits; "" where that is not clear."""
    types = types_of(schema)
    if not isinstance(value, str):
        return "quote it, if it is meant as text" if "string" in types and "enum" not in schema else ""
    if "boolean" in types:
        return "write true or false" if node.text.lower() in _OTHER_BOOLEANS else ""
    if "integer" not in types and "number" not in types:
        return ""
    if not node.plain:
        return "write the number without quotes"
    return "write plain decimal digits" if re.match(r"[-+]?\.?[0-9]", node.text) else ""


def value_hint(text: str, schema: Schema) -> str:
    """What was probably meant by text that the schema refuses; "" where nothing is near."""
    if "enum" in schema:
        return _closest(text, schema["enum"])
    return "write the absolute path, from / on" if "path" in schema["title"] and re.search(r"[./~]", text) else ""


def key_hint(key: str, known: Collection[str]) -> str:
    """Which known key was probably meant, or all of them where they are few."""
    few = f"known here: {', '.join(known)}" if 0 < len(known) <= _MOST_KNOWN else ""
    return _closest(key, known) or few or "`llmgw schema state` lists what is known"


def _closest(word: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only a mistake pays for the import

    near = get_close_matches(word[:80], known, n=1)
    return f"did you mean {near[0]}?" if near else ""
