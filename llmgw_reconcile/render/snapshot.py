"""A node and what runs on it to one document, for planning elsewhere: no secret in it, and no digest of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.observed import ForeignProcess, ObservedEngine, ObservedState
from llmgw_reconcile.plan.masking import shown_value
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
        "spec": _masked(engine.spec),
        "bookkeeping": engine.bookkeeping,
        "launch": _masked(engine.launch),
    }


def _masked(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The document as a diff would show it: literals that are secrets by their name are kept back, references stay."""
    if document is None:
        return None
    environment = {name: shown_value(f"env.{name}", value) for name, value in document.get("env", {}).items()}
    words = {name: shown_value(name, document[name]) for name in ("args", "argv") if name in document}
    return dict(document) | words | ({"env": environment} if environment else {})
