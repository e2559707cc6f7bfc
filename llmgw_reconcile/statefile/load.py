"""Turn the bytes of a state file into a desired state, or into everything that is wrong with them at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain

from llmgw_reconcile.errors import Diagnostic, Severity, StateFileError
from llmgw_reconcile.host.schema_files import schema_text
from llmgw_reconcile.model.desired import DesiredState, FileArg, ModelSpec
from llmgw_reconcile.statefile.build import Origin, build_model, build_node
from llmgw_reconcile.statefile.check import MOST_ERRORS, check
from llmgw_reconcile.statefile.document import UnreadableError, parse_document
from llmgw_reconcile.statefile.exposed import literal_secrets
from llmgw_reconcile.statefile.finding import Finding
from llmgw_reconcile.statefile.later import not_supported_yet
from llmgw_reconcile.statefile.meaning import missing_fields, oversized_strings, port_range_problems, twin_names
from llmgw_reconcile.statefile.read import read_plain_file
from llmgw_reconcile.statefile.sections import Section, defaults_of, models_of
from llmgw_reconcile.statefile.tree import Entries, Node
from llmgw_reconcile.statefile.wording import Schema

ReadFile = Callable[[str], bytes]


def load_state(source: str, data: bytes, *, base: str, read_file: ReadFile | None = None) -> DesiredState:
    """The desired state in `data`; `source` is the file's name in messages, `base` where its relative paths start.

    Files that `args` name are read through `read_file` (absolute path in, bytes out, OSError when that fails). One that
    cannot be read is a warning and a FileArg without a digest: it may lie on another machine. Raises StateFileError.
    """
    try:
        root = parse_document(data)
    except UnreadableError as error:
        raise StateFileError([error.finding.diagnostic(source)]) from None
    defaults, entries = defaults_of(root), models_of(root)
    findings = _findings(root, defaults, entries, source)
    diagnostics = [finding.diagnostic(source) for finding in sorted(findings, key=_place)]
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise StateFileError(diagnostics)
    assert isinstance(root, Entries)
    origin = Origin(source, base, cache(partial(_digest, read_file or read_plain_file)))
    models = tuple(build_model(entry, defaults, origin) for entry in entries)
    warnings = (*diagnostics, *_unread_files(models))
    return DesiredState(source, models, build_node(root), _sha256(data), warnings)


@cache
def state_schema() -> Schema:
    """The schema of state files."""
    schema: Schema = json.loads(schema_text("state"))
    return schema


def _findings(root: Node, defaults: Section | None, models: tuple[Section, ...], source: str) -> list[Finding]:
    """All that is wrong or doubtful, up to the 500th error, with a last word when there may be more."""
    sections = (defaults, *models) if defaults else models
    found: list[Finding] = []
    errors = 0
    for finding in chain(
        check(root, state_schema()),
        twin_names(models, source),
        missing_fields(defaults, models),
        port_range_problems(root),
        oversized_strings(sections),
        not_supported_yet(sections),
        literal_secrets(sections),
    ):
        found.append(finding)
        errors += finding.severity is Severity.ERROR
        if errors == MOST_ERRORS:
            last = max(found, key=_place)
            message = f"{MOST_ERRORS} errors; there may be more"
            return [*found, Finding(last.line, last.column, (), "too-many-errors", message, "correct these first")]
    return found


def _place(finding: Finding) -> tuple[int, int]:
    return finding.line, finding.column


def _unread_files(models: tuple[ModelSpec, ...]) -> Iterator[Diagnostic]:
    hint = "its engine is blocked on a node that lacks it"
    for number, model in enumerate(models):
        for index, item in enumerate(model.args):
            if isinstance(item, FileArg) and not item.digest:
                message = f"models[{number}].args[{index}]: cannot read {item.path}"
                yield Diagnostic(Severity.WARNING, "file-not-read", model.position(f"args[{index}]"), message, hint)


def _digest(read_file: ReadFile, path: str) -> str:
    try:
        return _sha256(read_file(path))
    except OSError:
        return ""


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
