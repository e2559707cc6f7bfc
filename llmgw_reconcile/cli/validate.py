"""`llmgw validate STATE...`: check everything that can be checked without the node."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import click

from llmgw_reconcile.errors import Diagnostic, Severity, StateFileError
from llmgw_reconcile.model.spec import engines_of


class Verdict(NamedTuple):
    """What was found in one file; `models` and `engines` are None when it could not be understood."""

    file: str
    diagnostics: tuple[Diagnostic, ...]
    models: int | None = None
    engines: int | None = None

    @property
    def is_valid(self) -> bool:
        """Whether nothing in the file stands in the way of a plan."""
        return not any(diagnostic.severity is Severity.ERROR for diagnostic in self.diagnostics)


@click.command()
@click.argument("states", metavar="STATE...", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print the result.")
def command(states: tuple[str, ...], output: str) -> int:
    """Check state files: syntax, fields and the arithmetic between them. "-" is standard input.

    Every file is checked. Exits with 3 when one of them is not valid. In a GitHub workflow, findings also show beside
    the lines of a pull request.

    \b
    Examples:
      llmgw validate states/*.yaml
      llmgw validate states/node.yaml -o json
    """
    verdicts = [_validate(state) for state in states]
    if output == "json":
        click.echo(json.dumps(_document(verdicts), indent=2))
    else:
        _print(verdicts)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _annotate(verdicts)
    return 0 if all(verdict.is_valid for verdict in verdicts) else StateFileError.exit_code


def _validate(path: str) -> Verdict:
    from llmgw_reconcile.statefile.load import load_state
    from llmgw_reconcile.statefile.read import read_state
    from llmgw_reconcile.validate.file_rules import check_file

    try:
        data, base = read_state(path)
        state = load_state(path, data, base=base)
    except StateFileError as error:
        return Verdict(path, error.diagnostics)
    diagnostics = (*state.warnings, *check_file(state))
    return Verdict(path, diagnostics, len(state.models), sum(len(engines_of(model)) for model in state.models))


def _print(verdicts: Iterable[Verdict]) -> None:
    """Diagnostics to standard error, a line for each valid file to standard output."""
    from llmgw_reconcile.render.diagnostics import diagnostics_text

    for verdict in verdicts:
        click.echo(diagnostics_text(verdict.diagnostics), err=True, nl=False)
        if verdict.is_valid:
            counts = f"{_count(verdict.models, 'model')}, {_count(verdict.engines, 'engine')}"
            click.echo(f"{click.format_filename(verdict.file)}: valid, {counts}")


def _annotate(verdicts: Iterable[Verdict]) -> None:
    """Workflow commands, on standard error: standard output may be a document."""
    from llmgw_reconcile.render.annotations import annotation

    for verdict in verdicts:
        for diagnostic in verdict.diagnostics:
            click.echo(annotation(diagnostic, _path_in_repository), err=True)


def _path_in_repository(file: str) -> str:
    """Annotations name files from the checkout's root, wherever the step runs."""
    root = os.environ.get("GITHUB_WORKSPACE")
    return os.path.relpath(file, root) if root else file


def _count(number: int | None, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _document(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """The result as JSON values; a diagnostic as plans show it."""
    from llmgw_reconcile.render.diagnostics import diagnostic_document

    return {
        "format_version": 1,
        "files": [
            {
                "file": verdict.file,
                "valid": verdict.is_valid,
                "models": verdict.models,
                "engines": verdict.engines,
                "diagnostics": list(map(diagnostic_document, verdict.diagnostics)),
            }
            for verdict in verdicts
        ],
    }
