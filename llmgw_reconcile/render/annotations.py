"""Diagnostics to the commands by which a GitHub workflow shows them beside the lines of a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable

from llmgw_reconcile.errors import Diagnostic, Severity

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_PLACE = re.compile(r"(?P<file>.+):(?P<line>[0-9]+):(?P<column>[0-9]+)")


def annotation(diagnostic: Diagnostic, file_of: Callable[[str], str]) -> str:
    """One workflow command. `file_of` turns a file as the user named it into its path within the repository."""
    place = _PLACE.fullmatch(diagnostic.where)
    properties = {"title": diagnostic.code}
    if place is not None:
        properties |= {"file": file_of(place["file"]), "line": place["line"], "col": place["column"]}
    elif diagnostic.where:
        properties |= {"file": file_of(diagnostic.where)}
    message = f"{diagnostic.message}\nhint: {diagnostic.hint}" if diagnostic.hint else diagnostic.message
    listed = ",".join(f"{name}={_escaped(value, in_property=True)}" for name, value in sorted(properties.items()))
    return f"::{_COMMANDS[diagnostic.severity]} {listed}::{_escaped(message)}"


def _escaped(text: str, *, in_property: bool = False) -> str:
    """As actions/toolkit escapes the data and the properties of a command: a line break would end it."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if in_property else text
