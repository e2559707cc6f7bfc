"""Read a state file, with the rules of the file applied."""

from __future__ import annotations

from llmgw_reconcile.errors import Severity, StateFileError
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.statefile.load import load_state
from llmgw_reconcile.statefile.read import read_plain_file, read_state
from llmgw_reconcile.validate.file_rules import check_file


def state_from(path: str) -> tuple[DesiredState, bytes, str]:
    """The state in a file ("-" is standard input), its bytes, and the folder it stands in. Raises StateFileError."""
    data, base = read_state(path)
    return state_from_bytes(path, data, base), data, base


def state_from_bytes(source: str, data: bytes, base: str) -> DesiredState:
    """The state in these bytes. Raises StateFileError with everything that is wrong."""
    state = load_state(source, data, base=base, read_file=read_plain_file)
    findings = check_file(state)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise StateFileError(findings)
    return state._replace(warnings=(*state.warnings, *findings))
