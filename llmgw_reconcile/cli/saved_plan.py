"""A plan as a file: what was approved, and the state it came from, so that an apply can refuse when the world moved."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from typing import NamedTuple

from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.host.files import write_json
from llmgw_reconcile.plan.actions import Plan
from llmgw_reconcile.render.plan_json import plan_document

KIND = "llmgw-saved-plan"
FORMAT_VERSION = 1


class SavedPlan(NamedTuple):
    """What a saved plan rests on."""

    source: str
    data: bytes
    base: str
    targets: tuple[str, ...]
    digest: str


def save_plan(path: str, plan: Plan, *, source: str, data: bytes, base: str, targets: Sequence[str]) -> None:
    """Write the plan. The state file goes in whole: secrets are references there. Raises NodeError."""
    state = {"source": source, "base": base, "data": base64.b64encode(data).decode("ascii"), "targets": list(targets)}
    write_json(
        os.path.abspath(path),
        {"format_version": FORMAT_VERSION, "kind": KIND, "state": state, "plan": plan_document(plan)},
    )


def read_saved_plan(path: str, data: bytes) -> SavedPlan | None:
    """The saved plan in these bytes; None when they are a state file. Raises RefusedError for a damaged plan."""
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None  # a state file written as JSON may be YAML: its own loader says what is wrong
    if not isinstance(found, dict) or found.get("kind") != KIND:
        return None
    try:
        state = found["state"]
        return SavedPlan(
            str(state["source"]),
            base64.b64decode(state["data"], validate=True),
            str(state["base"]),
            tuple(map(str, state["targets"])),
            str(found["plan"]["digest"]),
        )
    except (KeyError, TypeError, ValueError):
        raise RefusedError(
            f"cannot use {path}: it is not a whole saved plan; make it anew with `llmgw plan --out`"
        ) from None
