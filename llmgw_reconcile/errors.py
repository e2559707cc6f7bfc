"""Say what is wrong, where, and what to do about it: diagnostics, and the exceptions that carry an exit code."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How much a diagnostic stands in the way."""

    ERROR = "error"  # what it names cannot be done
    WARNING = "warning"  # it can be done; somebody will want to know
    NOTE = "note"  # nothing is amiss; what llmgw did not find out


class Diagnostic(NamedTuple):
    """One finding: `where` is file:line:column, or an engine, GPU or pid; `hint` is the next step."""

    severity: Severity
    code: str
    where: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        head = f"{self.severity}[{self.code}] {self.where}: {self.message}"
        return f"{head}\n  hint: {self.hint}" if self.hint else head


class LlmgwError(Exception):
    """A failure the user can act on; shown without a traceback. `exit_code` is contract §3's."""

    exit_code = 1


class NodeError(LlmgwError):
    """The node, or a tool or file on it, could not be read or changed."""


class RefusedError(LlmgwError):
    """Refused before anything was changed."""

    exit_code = 3


class StateFileError(RefusedError):
    """The state file is wrong in itself: everything that is wrong with it, at once."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))


class BusyError(LlmgwError):
    """Another llmgw holds the lock."""

    exit_code = 4


class SignalInterrupt(BaseException):
    """A signal ends the command: like KeyboardInterrupt, nothing that handles failures may take it for one."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number
