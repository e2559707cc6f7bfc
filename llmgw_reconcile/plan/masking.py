"""Turn commands, environments and changed values into what people may see of them: every secret is `(secret)`.

A secret is what the state file gives by reference, and a literal whose name says so: somebody committed it by mistake,
and a diff in a pull request must not repeat it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from llmgw_reconcile.model.desired import FileArg, SecretRef
from llmgw_reconcile.model.launch import SECRET_TEXT
from llmgw_reconcile.model.secret_names import names_a_secret

_USERINFO = re.compile(r"(?<=://)[^/\s@]+(?=@)")


def is_reference(value: Any) -> bool:
    """Whether a JSON value is a reference to a secret, as `SecretRef.as_json` writes it."""
    return isinstance(value, Mapping) and len(value) == 1 and not value.keys().isdisjoint(("env", "file"))


def shown_command(argv: Iterable[str | SecretRef | FileArg]) -> tuple[str, ...]:
    """A command line for people: secrets masked, also behind a flag that is named like one; files by their path."""
    shown: list[str] = []
    behind_secret = False
    for item in argv:
        if not isinstance(item, str):
            shown.append(item.path if isinstance(item, FileArg) else SECRET_TEXT)
            continue
        if item.startswith("-"):
            name, given, _ = item.partition("=")
            behind_secret = names_a_secret(name) and not given
            shown.append(f"{name}={SECRET_TEXT}" if given and names_a_secret(name) else _without_userinfo(item))
        else:
            shown.append(SECRET_TEXT if behind_secret else _without_userinfo(item))
    return tuple(shown)


def shown_environment(environment: Iterable[tuple[str, str | SecretRef]]) -> tuple[tuple[str, str], ...]:
    """An environment for people: secrets masked."""
    return tuple(
        (name, SECRET_TEXT if names_a_secret(name) or not isinstance(value, str) else _without_userinfo(value))
        for name, value in environment
    )


def shown_value(field: str, value: Any) -> Any:
    """A changed value for people. A reference stays as it is, since a path is no secret; absent stays None."""
    if value is None or is_reference(value):
        return value
    if names_a_secret(field):
        return SECRET_TEXT
    if isinstance(value, list):
        return list(_shown_items(value))
    return _without_userinfo(value) if isinstance(value, str) else value


def _shown_items(items: list[Any]) -> Iterable[Any]:
    """Like a command line, with its files as they are compared."""
    texts = iter(shown_command(item for item in items if isinstance(item, str)))
    return (next(texts) if isinstance(item, str) else item for item in items)


def _without_userinfo(text: str) -> str:
    return _USERINFO.sub(SECRET_TEXT, text)
