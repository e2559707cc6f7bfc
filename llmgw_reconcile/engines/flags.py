"""The `args` of a model to the flags among them that say what a field of the state file says."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.kind import EngineFlag, Kind
from llmgw_reconcile.model.desired import FileArg, ModelSpec


class FoundFlag(NamedTuple):
    """A flag in `args` that spells a field."""

    position: int  # in `args`, from 0
    flag: str  # as written, without its value: that may be a secret
    field: str
    value: str | None  # None when nothing, or a file, follows
    planned: bool  # llmgw itself says it too


def known_flags(model: ModelSpec) -> tuple[FoundFlag, ...]:
    """The flags in `args` that spell a field of the state file, in every spelling that the engine accepts."""
    kind = KINDS[model.engine]
    found = []
    for position, argument in enumerate(model.args):
        if isinstance(argument, FileArg) or not argument.startswith("-"):
            continue
        flag, value = _split(argument, kind)
        if meant := _meaning(flag, kind, model):
            value = _following(model, position) if value is None else value
            found.append(FoundFlag(position, flag, meant.field, value, meant.is_planned(model)))
    return tuple(found)


def clashing_flags(model: ModelSpec) -> tuple[FoundFlag, ...]:
    """The flags in `args` that llmgw puts on the command line itself, or whose meaning it must know."""
    return tuple(flag for flag in known_flags(model) if flag.planned)


def values_in_args(model: ModelSpec, field: str) -> tuple[str, ...]:
    """What `args` say of a field, as written."""
    return tuple(flag.value for flag in known_flags(model) if flag.field == field and flag.value is not None)


def planned_variables(model: ModelSpec) -> dict[str, str]:
    """Environment variables that say what llmgw says itself -> the field that they stand for."""
    planned = (flag for flag in KINDS[model.engine].flags if flag.is_planned(model))
    return {variable: flag.field for flag in planned for variable in flag.variables}


def _split(argument: str, kind: Kind) -> tuple[str, str | None]:
    """`--port=9` and, of argparse, `-qfp8`, as flag and value; None when the value is an argument of its own."""
    flag, equals, value = argument.partition("=")
    if equals:
        return flag, value
    short = argument[:2]
    if kind.abbreviates and len(argument) > 2 and any(short in known.also for known in kind.flags):
        return short, argument[2:]
    return argument, None


def _meaning(flag: str, kind: Kind, model: ModelSpec) -> EngineFlag | None:
    """The field that a flag spells; of several, one that llmgw plans."""
    written = flag.replace("_", "-") if flag.startswith("--") else flag
    exact = [known for known in kind.flags if written in (known.flag, *known.also)]
    meant = exact or [known for known in kind.flags if _abbreviates(written, known, kind)]
    return next((known for known in meant if known.is_planned(model)), meant[0] if meant else None)


def _abbreviates(written: str, known: EngineFlag, kind: Kind) -> bool:
    if not kind.abbreviates or written in kind.not_abbreviations or not written.strip("-"):
        return False
    return any(spelling.startswith(written) for spelling in (known.flag, *known.also))


def _following(model: ModelSpec, position: int) -> str | None:
    following = model.args[position + 1] if position + 1 < len(model.args) else None
    return following if isinstance(following, str) else None
