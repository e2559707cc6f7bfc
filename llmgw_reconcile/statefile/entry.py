"""Turn fields of a model into the lines of an entry, laid out canonically, that load as exactly these values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from llmgw_reconcile.model.desired import NOTHING
from llmgw_reconcile.statefile.load import state_schema

WIDEST = 100  # columns; longer lists and mappings are written one item a line
MODELINE = "# yaml-language-server: $schema=state.schema.json"

_PLAIN = re.compile(r"(?:--?(?=[A-Za-z])|[A-Za-z0-9_./+])[A-Za-z0-9_./+@%^~=$-]*(?::[A-Za-z0-9_./+@%^~=$-]+)*")
# Text that readers of YAML 1.1 or 1.2 take for a boolean, nothing, a number, a time or a date.
_MISLEADING = re.compile(
    r"y|n|yes|no|on|off|true|false|null|[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:e[-+]?[0-9]+)?|0[xob][0-9a-f_]+"
    r"|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|[-+]?\.(?:inf|nan)",
    re.IGNORECASE,
)
_LONGEST_NAME = 58  # of a DNS label's 63, so that a number has room
_AS_WRITTEN = ("args", "env")  # fields whose scalars count as they are written


def entry_lines(fields: Mapping[str, Any], remarks: Mapping[str, str] = NOTHING) -> list[str]:
    """An item of `models:`. `fields` are JSON values by the names of the schema; `remarks` are put above their field.

    A value of `args` and `env` is text, or a mapping such as {"env": NAME}.
    """
    order = {name: place for place, name in enumerate(state_schema()["properties"]["defaults"]["properties"])}
    lines: list[str] = []
    for name in sorted(fields, key=lambda name: order.get(name, -1)):  # `name` has no default, and comes first
        lines += (f"    # {line}" for line in remarks.get(name, "").splitlines())
        lines += _field_lines(name, fields[name], 4, as_written=name in _AS_WRITTEN)
    first = next(place for place, line in enumerate(lines) if not line.startswith("    #"))
    lines[:first] = [line.removeprefix("  ") for line in lines[:first]]
    lines[first] = f"  - {lines[first].lstrip()}"
    return lines


def state_text(head: Iterable[str], settings: Mapping[str, Any], entries: Sequence[Sequence[str]]) -> str:
    """A whole state file: `head` as comments, the `node:` block if `settings` has any, and the entries."""
    lines = [MODELINE, *(f"# {line}".rstrip() for line in head), "version: 1"]
    if settings:
        lines += ["", *_field_lines("node", settings, 0, as_written=False, in_block=True)]
    is_empty = all(line.lstrip().startswith("#") for entry in entries for line in entry)
    lines += ["", "models: []" if is_empty else "models:"]
    for number, entry in enumerate(entries):
        lines += [*([""] if number else []), *(line.removeprefix("  ") if is_empty else line for line in entry)]
    return "".join(f"{line}\n" for line in lines)


def commented(entry: Iterable[str], reasons: Iterable[str]) -> list[str]:
    """The entry as a comment, below the reasons for that."""
    return [
        *(f"  # {line}" for reason in reasons for line in reason.splitlines()),
        *(f"  # {line[2:]}" for line in entry),
    ]


def free_name(fields: Mapping[str, Any], taken: Collection[str]) -> str:
    """A name for a model after what clients call it, or after its own; with a number where another one has it.

    >>> free_name({"model": "meta-llama/Llama-3.3-70B-Instruct"}, ())
    'llama-3-3-70b-instruct'
    >>> free_name({"model": "/srv/Qwen3_8B.Q4.gguf", "served_model_name": ["qwen", "q"]}, ("qwen",))
    'qwen-2'
    """
    served = fields.get("served_model_name", fields["model"])
    whole = str(served if isinstance(served, str) else served[0]).rstrip("/")
    base = whole.rpartition("/")[2].removesuffix(".gguf").lower()
    label = re.sub("[^a-z0-9]+", "-", base).strip("-")[:_LONGEST_NAME].rstrip("-") or "model"
    names = (label, *(f"{label}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _field_lines(name: str, value: Any, indent: int, *, as_written: bool, in_block: bool = False) -> Iterator[str]:
    head = f"{' ' * indent}{name}:"
    one_line = f"{head} {_flow(value, as_written=as_written)}"
    is_long = in_block or len(one_line) > WIDEST or (name == "env" and len(value) > 1)
    if not is_long or not value or not isinstance(value, Mapping | list):
        yield one_line
        return
    yield head
    if isinstance(value, list):
        yield from (f"{' ' * (indent + 2)}- {_flow(item, as_written=as_written)}" for item in value)
        return
    for key, inner in value.items():
        yield from _field_lines(_scalar(key, as_written=True), inner, indent + 2, as_written=as_written)


def _flow(value: Any, *, as_written: bool, inside: bool = False) -> str:
    """A value on one line; `inside` a flow collection, where a colon may end a word."""
    if isinstance(value, Mapping):
        pairs = ((_scalar(k, as_written=True), _flow(v, as_written=as_written, inside=True)) for k, v in value.items())
        return f"{{{', '.join(f'{key}: {text}' for key, text in pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(item, as_written=as_written, inside=True) for item in value)}]"
    return _scalar(value, as_written=as_written, inside=inside)


def _scalar(value: Any, *, as_written: bool, inside: bool = False) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12f}".rstrip("0") if "e" in repr(value) else repr(value)
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and not (inside and ":" in value) and (as_written or not _MISLEADING.fullmatch(value)):
        return value
    return _quoted(value)


def _quoted(text: str) -> str:
    """In single quotes where that needs no escape and double ones would, else in double quotes."""
    if text.isprintable() and "'" not in text and ('"' in text or "\\" in text):
        return f"'{text}'"
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable() and character != "\ufeff":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
