"""Check what no schema can say: names given twice, fields that nobody gives, the limits of the kernel."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_reconcile.statefile.finding import Finding, Path
from llmgw_reconcile.statefile.sections import Section
from llmgw_reconcile.statefile.tree import Entries, Node, Scalar

# Linux, execve(2): one string, its NUL included; and all strings together under the usual stack limit of 8 MiB,
# less what the rest of the command line and environment may take.
MAX_STRING_BYTES = 131072
MAX_STRINGS_BYTES = 1 << 20

_NEEDED = {"model": "a hub id or an absolute path", "engine": "one of vllm, sglang, llama-cpp"}


def twin_names(models: tuple[Section, ...], source: str) -> Iterator[Finding]:
    """A finding for each name that an earlier entry has."""
    seen: dict[str, Scalar] = {}
    for section in models:
        name = section.fields.get("name")
        if not isinstance(name, Scalar) or not name.text:
            continue
        first = seen.setdefault(name.text, name)
        if first is not name:
            message = f"the name of another model too, at {source}:{first.line}:{first.column}"
            yield Finding(name.line, name.column, (*section.path, "name"), "twin-name", message, "give it another name")


def missing_fields(defaults: Section | None, models: tuple[Section, ...]) -> Iterator[Finding]:
    """A finding for each field that a model needs and that neither its entry nor `defaults:` gives."""
    given = defaults.fields if defaults else {}
    for section in models:
        for name, wanted in _NEEDED.items():
            if name not in section.fields and name not in given:
                place = section.place
                message = f"missing, expected {wanted}"
                yield Finding(place.line, place.column, (*section.path, name), "missing-key", message)


def port_range_problems(root: Node) -> Iterator[Finding]:
    """A finding when `node.ports` is backwards or reaches outside 1024-65535."""
    node = root.fields.get("node") if isinstance(root, Entries) else None
    ports = node.fields.get("ports") if isinstance(node, Entries) else None
    if not isinstance(ports, Scalar):
        return
    first, _, last = ports.text.partition("-")
    if (
        first.isdecimal()
        and last.isdecimal()
        and len(first + last) < 12
        and not 1024 <= int(first) <= int(last) <= 65535
    ):
        message = f"found '{ports.text}', expected two ports from 1024 to 65535, the lower one first"
        yield Finding(ports.line, ports.column, ("node", "ports"), "wrong-value", message)


def oversized_strings(sections: tuple[Section, ...]) -> Iterator[Finding]:
    """A finding for each argument or variable, or all of a model's together, that the kernel would not pass on."""
    for section in sections:
        total = 0
        for path, node, size in _strings(section):
            total += size
            if size > MAX_STRING_BYTES:
                yield _too_long(node, path, f"{size} bytes", f"{MAX_STRING_BYTES} bytes for one string")
        if total > MAX_STRINGS_BYTES:
            message = f"{total} bytes of arguments and variables"
            yield _too_long(section.place, section.path, message, f"{MAX_STRINGS_BYTES} bytes")


def _too_long(node: Node, path: Path, found: str, most: str) -> Finding:
    message = f"found {found}, expected at most {most}"
    return Finding(node.line, node.column, path, "too-long", message, "put it into a file")


def _strings(section: Section) -> Iterator[tuple[Path, Scalar, int]]:
    """Each literal of `args` and `env` with its size in bytes as the kernel counts it."""
    for index, item in enumerate(section.args):
        if isinstance(item, Scalar):
            yield (*section.path, "args", index), item, len(item.text.encode()) + 1
    for name, value in section.literals.items():
        yield (*section.path, "env", name), value, len(f"{name}={value.text}".encode()) + 1
