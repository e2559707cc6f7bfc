"""Turn actions into the digest that a person's approval is bound to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from llmgw_reconcile.plan.actions import Action, ActionKind


def plan_digest(node: str, actions: Iterable[Action]) -> str:
    """`sha256:…` over the actions and the facts they rest on: specs, GPUs, ports, launches, and why one is blocked.

    Left out is what differs between two looks at one world (phases, pids, exits, temperatures, the words around them)
    and what an apply does not act on (notes for the next start). So reasons do not count, but the codes that block do.
    """
    facts = {"node": node, "actions": [_facts(action) for action in actions]}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _facts(action: Action) -> dict[str, Any]:
    return {
        "action": str(action.kind),
        "engine": action.engine,
        "surge": action.surge,
        "spec": action.spec.document if action.spec else None,
        "bookkeeping": action.spec.bookkeeping if action.spec else None,
        "changes": [change[:3] for change in action.changes],
        "gpus": action.gpus,
        "gpu_classes": action.gpu_classes,
        "port": action.port,
        "command": action.command,
        "environment": action.environment,
        "blocked": sorted({d.code for d in action.diagnostics}) if action.kind is ActionKind.BLOCKED else [],
    }
