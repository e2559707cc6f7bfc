"""Find the JSON Schemas that llmgw was shipped with."""

from __future__ import annotations

import os

from llmgw_reconcile.errors import LlmgwError

SCHEMA_NAMES = ("state", "inventory", "plan", "status", "snapshot")


def schema_text(name: str) -> str:
    """The JSON Schema called `name`: from the installed package, or from the checkout that the package lies in.

    Raises LlmgwError when the installation lacks it.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder in (package, os.path.dirname(package)):
        try:
            with open(os.path.join(folder, "schemas", f"{name}.schema.json"), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            continue
    raise LlmgwError(f"cannot find the schema {name!r} beside {package}: install llmgw-reconcile again")
