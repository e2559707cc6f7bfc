"""Turn two documents of one engine into the fields that changed between them, sorted, empty when they agree.

Values are compared as they are and shown masked (plan/masking.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llmgw_reconcile.model.launch import SECRET_TEXT
from llmgw_reconcile.model.spec import Document
from llmgw_reconcile.plan.actions import FieldChange
from llmgw_reconcile.plan.masking import is_reference, shown_value


def diff_documents(before: Document, after: Document, *, forces_replace: bool) -> tuple[FieldChange, ...]:
    """The changes that lead from `before` to `after`; an absent field is None.

    A mapping gives a dotted field for each key (`env.HF_TOKEN`, `gpus.class`), `args` one for each flag, any other
    list is one value.
    """
    old, new = _flat(before), _flat(after)
    changes: list[FieldChange] = []
    for field in old.keys() | new.keys():
        was, now = old.get(field), new.get(field)
        if was == now or _is_kept_back(field, was, now):
            continue
        if field == "args" and isinstance(was, list) and isinstance(now, list):
            changes += _words_changed(field, was, now, forces_replace=forces_replace)
        else:
            changes.append(_change(field, was, now, forces_replace=forces_replace))
    return _sorted(changes)


def diff_launch(recorded: Document, derived: Document) -> tuple[FieldChange, ...]:
    """What the next start would do differently, of two launch documents: executable, flags by name, environment, and
    the version of the engine and the content of the model where both are known.

    `executable` is the first word of the command line, so the `prefix` where there is one.
    """
    was, now = list(recorded.get("argv") or [""]), list(derived.get("argv") or [""])
    changes: list[FieldChange] = []
    if was[0] != now[0]:
        changes.append(_change("executable", was[0], now[0], forces_replace=False))
    if was[1:] != now[1:]:
        changes += _words_changed("command", was[1:], now[1:], forces_replace=False)
    environments = [{"env": document.get("env") or {}} for document in (recorded, derived)]
    changes += diff_documents(*environments, forces_replace=False)
    changes += _found_out(recorded, derived)
    return _sorted(changes)


def _found_out(recorded: Document, derived: Document) -> Iterator[FieldChange]:
    """What was found out about engine and model at the start; an unknown on either side is not compared."""
    version, new = recorded.get("engine_version"), derived.get("engine_version")
    if version is not None and new is not None and version != new and not _is_same_version(version, new):
        yield _change("engine_version", version, new, forces_replace=False)
    was, now = recorded.get("model_files"), derived.get("model_files")
    if was and now:
        yield from diff_documents({"model": was}, {"model": now}, forces_replace=False)


def _is_same_version(one: str, other: str) -> bool:
    from llmgw_reconcile.engines.version import is_same  # rarely needed

    return is_same(one, other)


def secret_changes(recorded: Mapping[str, str], now: Mapping[str, str | None]) -> tuple[FieldChange, ...]:
    """The secrets whose keyed digests differ; one that either side does not know is not compared."""
    return _sorted(
        FieldChange(field, SECRET_TEXT, SECRET_TEXT, forces_replace=True)
        for field, digest in now.items()
        if digest is not None and recorded.get(field) not in (None, digest)
    )


def _flat(document: Document) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping) and name != "api_key":  # which is a reference, and so one value
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat


def _words_changed(field: str, before: list[Any], after: list[Any], *, forces_replace: bool) -> Sequence[FieldChange]:
    """Flag by flag; the whole list when only the order of the words or their spelling (`=`) differs."""
    old, new = _by_flag(before), _by_flag(after)
    changes = [
        _change(f"{field}.{flag}" if flag else field, old.get(flag), new.get(flag), forces_replace=forces_replace)
        for flag in old.keys() | new.keys()
        if old.get(flag) != new.get(flag) and not _is_kept_back(f"{field}.{flag}", old.get(flag), new.get(flag))
    ]
    return changes or [_change(field, before, after, forces_replace=forces_replace)]


def _is_kept_back(field: str, was: Any, now: Any) -> bool:
    """Whether a snapshot keeps a secret back here, and all that it shows agrees."""
    return SECRET_TEXT in str(was) and shown_value(field, now) == was


def _by_flag(words: Iterable[Any]) -> dict[str, Any]:
    """Each flag with its value: True for none, a list for several; words that follow no flag stand under "".

    >>> _by_flag(["serve", "--seed", "-1", "--eager", "--rope=a", "org/model"])
    {'': ['serve', 'org/model'], '--seed': '-1', '--eager': True, '--rope': 'a'}
    """
    values: dict[str, list[Any]] = {}
    flag = ""
    for word in words:
        if not isinstance(word, str) or not word.startswith("-") or word[1:2].isdigit():
            values.setdefault(flag, []).append(word)
            continue
        name, given, value = word.partition("=")
        values.setdefault(name, []).extend([value] if given else [])
        flag = "" if given else name
    return {
        name: found if not name or len(found) > 1 else found[0] if found else True for name, found in values.items()
    }


def _change(field: str, before: Any, after: Any, *, forces_replace: bool) -> FieldChange:
    """A literal that gave way to a reference, or the other way round, was or is a secret: only the reference shows."""
    was, now = shown_value(field, before), shown_value(field, after)
    if is_reference(now) and isinstance(was, str):
        was = SECRET_TEXT
    if is_reference(was) and isinstance(now, str):
        now = SECRET_TEXT
    return FieldChange(field, was, now, forces_replace)


def _sorted(changes: Iterable[FieldChange]) -> tuple[FieldChange, ...]:
    return tuple(sorted(changes, key=lambda change: change.field))
