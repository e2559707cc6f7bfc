"""The rules of the installed engine: that it is the pinned version, and that it knows its flags."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.known_flags import flag_problems
from llmgw_reconcile.engines.normalise import behind_entry
from llmgw_reconcile.engines.version import matches
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import FileArg
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.validate.facts import EngineFacts

ACCEPT_FLAG = "unknown-flag"


def version_is_pinned(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """Another version than the pinned one is not started, and neither is one that does not name its version."""
    pin, version = placement.spec.model.engine_version, facts.installed.version
    if pin is None or facts.executable is None:
        return
    title, engine = KINDS[placement.spec.model.engine].title, placement.spec.engine
    if version is not None and not matches(pin, version):
        message = f"engine_version {pin}: {title} {version} is installed ({placement.executable})"
        hint = "install that version, name another `executable`, or change the pin"
        yield Diagnostic(Severity.ERROR, "engine-version", engine, message, hint)
    elif version is None and facts.was_asked:
        message = f"engine_version {pin}: {placement.executable} does not name its version"
        yield Diagnostic(Severity.ERROR, "engine-version", engine, message, "leave the pin out, or install a release")
    elif version is None:
        message = f"engine_version {pin}: which version is installed is not known yet ({placement.executable})"
        yield Diagnostic(Severity.WARNING, "engine-version", engine, message, "apply asks it, once")


def flags_are_known(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """The installed engine takes every flag and value: one that it does not know ends it after all of its imports."""
    model, engine = placement.spec.model, placement.spec.engine
    command = (*KINDS[model.engine].command(placement), *model.args)
    words = [word.path if isinstance(word, FileArg) else word if isinstance(word, str) else "" for word in command]
    for problem in flag_problems(behind_entry(words, placement.executable), model.engine, facts.installed):
        if not problem.is_refused:
            yield Diagnostic(Severity.WARNING, "deprecated-flag", engine, problem.words, problem.cure)
        elif ACCEPT_FLAG not in model.accept:
            accept = f"a plugin's flag is let through by `accept: [{ACCEPT_FLAG}]`"
            hint = f"{problem.cure}; {accept}" if problem.cure else accept
            yield Diagnostic(Severity.ERROR, ACCEPT_FLAG, engine, problem.words, hint)
