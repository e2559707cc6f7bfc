"""A node and what runs on it to one document, for planning elsewhere: no secret in it, and no digest of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import SECRET_TEXT
from llmgw_reconcile.model.observed import ForeignProcess, ObservedEngine, ObservedState
from llmgw_reconcile.model.secret_names import names_a_secret
from llmgw_reconcile.render.inventory import inventory_document
from llmgw_reconcile.render.status import status_document

FORMAT_VERSION = 1


def snapshot_document(
    inventory: Inventory, observed: ObservedState, foreign: Sequence[ForeignProcess]
) -> dict[str, Any]:
    """The document of schemas/snapshot.schema.json."""
    return {
        "format_version": FORMAT_VERSION,
        "inventory": inventory_document(inventory),
        "status": status_document(inventory.node, observed, foreign),
        "engines": {engine.engine: _records(engine) for engine in observed.engines},
    }


def _records(engine: ObservedEngine) -> dict[str, Any]:
    return {
        "supervised": engine.supervisor is not None,
        "leftovers": [process.pid for process in engine.leftovers],
        "spec": engine.spec,
        "bookkeeping": engine.bookkeeping,
        "launch": None if engine.launch is None else _masked(engine.launch),
    }


def _masked(launch: Mapping[str, Any]) -> dict[str, Any]:
    """The launch without literals whose name says that they are secrets; references stay."""
    environment = {
        name: SECRET_TEXT if isinstance(value, str) and names_a_secret(name) else value
        for name, value in launch["env"].items()
    }
    return dict(launch) | {"env": environment}
