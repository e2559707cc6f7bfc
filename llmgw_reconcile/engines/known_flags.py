"""Turn a command line and what the installed engine says of its flags into those that it would refuse.

An unknown flag ends an engine with exit code 2, after as long as its imports take. Where the engine did not list its
flags, what is known of its version speaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.flag_history import DEPRECATED, find_gone, gone_in
from llmgw_reconcile.engines.normalise import Given, read_flags
from llmgw_reconcile.engines.version import at_least
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.model.installed import Installed, Option

VALUES_NAMED = 12  # of those that a flag takes

# What an engine reads before its flags, and lists nowhere: vLLM's `-O3`.
_UNLISTED = {EngineKind.VLLM: ("-O",)}


class FlagProblem(NamedTuple):
    """A flag, or a value, that the installed engine does not take, or will not take for long."""

    words: str
    cure: str  # the next step; may be empty
    is_refused: bool


def flag_problems(words: Sequence[str], kind: EngineKind, installed: Installed) -> Iterator[FlagProblem]:
    """What speaks against these words behind an engine's entry; nothing where the engine is not known."""
    options = {name: option for option in installed.options for name in option.names}
    engine = f"{KINDS[kind].title} {installed.version or ''}".rstrip()
    for given in read_flags(words, kind, installed.options):
        if not given.is_flag or given.written.startswith(_UNLISTED.get(kind, ("\0",))):
            continue
        option = options.get(given.name.partition(".")[0]) or options.get(given.name)
        if problem := _refused(given, option, kind, installed, engine) or _deprecated(given, kind, installed, engine):
            yield problem
        elif option is not None or installed.version is not None:
            yield from _values(given, option, kind, installed, engine)


def _refused(
    given: Given, option: Option | None, kind: EngineKind, installed: Installed, engine: str
) -> FlagProblem | None:
    gone = gone_in(kind, given.name, installed.version) if installed.version else None
    if option is not None and option.removed is not None:
        return FlagProblem(f"{engine} has removed {given.written}", option.removed, is_refused=True)
    if option is not None or (gone is None and not installed.options):
        return None
    if given.candidates and gone is None:
        meant = ", ".join(given.candidates)
        return FlagProblem(f"{given.written} is cut short, and may be {meant} of {engine}", "", is_refused=True)
    known = find_gone(kind, given.name)
    cure = known.cure if known else _alike(given.name, installed.options)
    return FlagProblem(f"{engine} has no {given.written}" + (f": {gone}" if gone else ""), cure, is_refused=True)


def _deprecated(given: Given, kind: EngineKind, installed: Installed, engine: str) -> FlagProblem | None:
    old = next((one for one in DEPRECATED[kind] if one.flag == given.name), None)
    if old is None or installed.version is None or not at_least(installed.version, old.since):
        return None
    return FlagProblem(f"{given.written} is deprecated in {engine}", old.cure, is_refused=False)


def _values(
    given: Given, option: Option | None, kind: EngineKind, installed: Installed, engine: str
) -> Iterator[FlagProblem]:
    """Only of an option that says which values it takes is a value unknown."""
    for value in given.values:
        gone = gone_in(kind, given.name, installed.version, value) if installed.version else None
        if option is not None and option.choices and value in option.choices:
            continue
        if gone is None and (option is None or not option.choices):
            continue
        known = find_gone(kind, given.name, value)
        choices = option.choices if option is not None else ()
        listed = ", ".join(choices[:VALUES_NAMED]) + (" …" if len(choices) > VALUES_NAMED else "")
        cure = known.cure if known is not None else f"it takes {listed}"
        words = f"{engine} has no {given.written} {value}" + (f": {gone}" if gone else "")
        yield FlagProblem(words, cure, is_refused=True)


def _alike(flag: str, options: Sequence[Option]) -> str:
    from difflib import get_close_matches  # only where something is wrong

    near = get_close_matches(flag, [name for option in options for name in option.names], n=1)
    return f"did you mean {near[0]}?" if near else ""
