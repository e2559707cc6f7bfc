"""What runs on a node to a state file that asks for just that: engines of ours by their records, others by /proc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llmgw_reconcile.discovery.engines import engine_finder
from llmgw_reconcile.discovery.foreign_engines import ForeignEngine, find_foreign_engines
from llmgw_reconcile.engines.program import program_of
from llmgw_reconcile.errors import Diagnostic, LlmgwError, Severity, StateFileError
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState
from llmgw_reconcile.model.spec import model_of
from llmgw_reconcile.statefile.entry import commented, entry_lines, state_text
from llmgw_reconcile.statefile.load import load_state
from llmgw_reconcile.validate.file_rules import check_file
from llmgw_reconcile.workflow.foreign_entries import foreign_entry, with_name
from llmgw_reconcile.workflow.glance import Glance
from llmgw_reconcile.workflow.recorded_entries import FoundEntry, RecordedEngine, recorded_entry


class Imported(NamedTuple):
    """The state file, how many entries of it count, and what could not be taken over."""

    text: str
    entries: int
    warnings: tuple[Diagnostic, ...]


def others_engines(observed: ObservedState) -> tuple[ForeignEngine, ...]:
    """The engines that run here and that no record of ours knows."""
    return find_foreign_engines(lambda argv: program_of(argv) is not None, engine_finder(observed))


def import_state(look: Glance, foreign: Iterable[ForeignEngine]) -> Imported:
    """The state file of what was seen here. It is valid: what would not be is written as a comment, with why."""
    node = look.inventory.node
    entries, warnings = _managed(look.observed.engines)
    for engine in foreign:
        try:
            found = foreign_entry(engine, look.inventory.gpus)
        except LlmgwError as error:
            warnings.append(_warning("import-unreadable", f"pid {engine.pid}", str(error)))
        else:
            taken = [entry.fields["name"] for entry in entries]
            entries.append(found._replace(fields=with_name(found.fields, taken)))
    accepted: list[list[str]] = []
    count = 0
    for entry in entries:
        lines = entry_lines(entry.fields, entry.remarks)
        if refusals := refusals_of([*accepted, lines]):
            reasons = [f"not usable as it is: {refusal.message}" for refusal in refusals]
            warnings += (_warning("import-incomplete", entry.origin, refusal.message) for refusal in refusals)
            accepted.append(commented(lines, reasons))
        else:
            accepted.append(lines)
            count += 1
    head = (f"What runs on {node}, as `llmgw import` found it.",)
    return Imported(state_text(head, {"name": node}, accepted), count, tuple(warnings))


def refusals_of(entries: Sequence[Sequence[str]]) -> tuple[Diagnostic, ...]:
    """The errors of a state file that has these entries; files that `args` name are taken to be there."""
    data = state_text((), {}, entries).encode()
    try:
        state = load_state("-", data, base="/", read_file=lambda _: b"")
    except StateFileError as error:
        found: Iterable[Diagnostic] = error.diagnostics
    else:
        found = check_file(state)
    errors = (one for one in found if one.severity is Severity.ERROR)
    return tuple(one._replace(message=re.sub(r"^models\[\d+\]\.?", "", one.message)) for one in errors)


def _managed(engines: Iterable[ObservedEngine]) -> tuple[list[FoundEntry], list[Diagnostic]]:
    by_model: dict[str, list[RecordedEngine]] = {}
    warnings = []
    for engine in engines:
        if engine.spec is None or engine.bookkeeping is None:
            warnings.append(_warning("import-unreadable", engine.engine, "its record is lost, so it is left out"))
            continue
        replica = int(engine.engine.rpartition("@")[2])
        by_model.setdefault(model_of(engine.engine), []).append(
            RecordedEngine(replica, engine.spec, engine.bookkeeping)
        )
    return [recorded_entry(name, found) for name, found in by_model.items()], warnings


def _warning(code: str, where: str, message: str) -> Diagnostic:
    return Diagnostic(Severity.WARNING, code, where, message, "write its entry by hand, or correct it")
