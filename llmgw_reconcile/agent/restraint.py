"""Decide which planned actions the loop leaves alone: what a person stopped, and what has failed as it stands.

A launch that failed is not tried again by itself until its entry, its program or a person asks (contract §2); an engine
that is held waits for the person who stopped it.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from llmgw_reconcile.model.observed import ObservedEngine, Phase
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.diff import diff_documents, secret_changes
from llmgw_reconcile.plan.reconcile import Wanted


class Attempt(NamedTuple):
    """What was last tried for an engine."""

    spec: str  # digest of what was wanted
    program: str  # what tells this program from another, or from itself after a change
    failed: bool  # known to have failed, whatever the records say now: it was rolled back


class LeftAlone(NamedTuple):
    """Why nothing is done for an engine, in words, and what would have to happen first."""

    why: str
    hint: str


def spec_digest(want: Wanted) -> str:
    """A digest of all that an entry says of one engine, its secrets by their keyed digests."""
    facts = [want.spec.document, want.spec.bookkeeping, dict(want.secret_digests)]
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def left_alone(
    action: Action, want: Wanted, seen: ObservedEngine | None, attempt: Attempt | None, program: str
) -> LeftAlone | None:
    """Why this start or replacement is not made; None when it is. `program` is the one that it would run now."""
    if action.kind not in (ActionKind.START, ActionKind.REPLACE):
        return None
    if seen is not None and seen.phase is Phase.HELD:
        return LeftAlone("held: it was stopped by hand", f"`llmgw restart {action.engine}` or an apply starts it")
    has_failed = seen is not None and seen.phase is Phase.FAILED
    if attempt is not None and attempt.spec == spec_digest(want):
        is_same = attempt.program == program and (attempt.failed or has_failed)
    else:  # somebody else tried, or nobody did
        is_same = has_failed and seen is not None and _is_recorded(want, seen)
    if not is_same:
        return None
    hint = f"change its entry or its program, or say `llmgw restart {action.engine}`"
    if action.kind is ActionKind.REPLACE:
        return LeftAlone("its replacement failed and is not tried again as it stands", hint)
    return LeftAlone("it failed and is not tried again as it stands", hint)


def _is_recorded(want: Wanted, seen: ObservedEngine) -> bool:
    """Whether the last launch was of what is wanted now."""
    if seen.spec is None:
        return False
    changes = diff_documents(seen.spec, want.spec.document, forces_replace=True)
    changes += diff_documents(seen.bookkeeping or {}, want.spec.bookkeeping, forces_replace=False)
    return not changes and not secret_changes(seen.secret_digests or {}, want.secret_digests)
