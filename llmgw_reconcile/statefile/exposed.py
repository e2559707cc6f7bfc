"""Warn about secrets that stand in the state file itself, by their place and never by their value."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.secret_names import names_a_secret
from llmgw_reconcile.statefile.finding import Finding, Path
from llmgw_reconcile.statefile.sections import Section
from llmgw_reconcile.statefile.tree import Node, Scalar


def literal_secrets(sections: tuple[Section, ...]) -> Iterator[Finding]:
    """A warning for each variable and flag that by its name is a secret and has its value in the file."""
    for section in sections:
        for name, value in section.literals.items():
            if value.text and names_a_secret(name):
                yield _warning(value, (*section.path, "env", name), "write {file: PATH} or {env: NAME} instead")
        yield from _secret_flags(section)


def _secret_flags(section: Section) -> Iterator[Finding]:
    hint = "every user of the node can read a command line; use `api_key:`, or `env:` with {file: PATH}"
    is_awaited = False  # the item before was the flag of a secret, without its value
    for index, item in enumerate(section.args):
        text = item.text if isinstance(item, Scalar) else ""
        flag, equals, value = text.partition("=")
        is_secret = flag.startswith("-") and names_a_secret(flag)
        if (is_awaited and text) or (is_secret and value):
            yield _warning(item, (*section.path, "args", index), hint)
        is_awaited = is_secret and not equals


def _warning(node: Node, path: Path, hint: str) -> Finding:
    message = "a secret is written into the file"
    return Finding(node.line, node.column, path, "literal-secret", message, hint, Severity.WARNING)
