"""State files in few words, and what the loader says about them."""

from __future__ import annotations

from llmgw_reconcile.errors import Diagnostic, Severity, StateFileError
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.statefile.load import load_state

# Five lines: what follows with four spaces is a field of the model, on line 6.
HEAD = "version: 1\nmodels:\n  - name: chat\n    model: acme/tiny\n    engine: vllm\n"


def with_field(line: str) -> str:
    """A good state whose model has one more line."""
    return f"{HEAD}    {line}\n"


def loaded(text: str | bytes, **options) -> DesiredState:
    data = text.encode() if isinstance(text, str) else text
    return load_state("node.yaml", data, **{"base": "/etc/llmgw", **options})


def diagnostics_of(text: str | bytes) -> tuple[Diagnostic, ...]:
    """Everything that the loader says, whether it accepts the file or not."""
    try:
        return loaded(text).warnings
    except StateFileError as error:
        return error.diagnostics


def errors_of(text: str | bytes) -> list[str]:
    """The errors as `where: message`."""
    return [f"{d.where}: {d.message}" for d in diagnostics_of(text) if d.severity is Severity.ERROR]


def codes_of(text: str | bytes) -> list[str]:
    return [diagnostic.code for diagnostic in diagnostics_of(text)]
