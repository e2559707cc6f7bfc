"""What is done to one engine without starting it: stop it for good, adopt it, update its bookkeeping, see it ready."""

from __future__ import annotations

from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.workflow.site import Site, Work


def stop_for_good(site: Site, action: Action) -> Work:
    """Stop it, prove it, and remove its records."""
    site.ledger.begin(action)
    stopping = site.stopping(action, for_good=True)
    while not stopping.is_over:
        if stopping.was_asked and (enough := site.enough()):
            site.ledger.finish(action, ok=enough.ok, summary=f"asked to stop, and not waited for: {enough.reason}")
            return
        yield
    outcome = stopping.prove()
    site.operations.forget(action.engine)
    site.ledger.finish(action, ok=True, summary=str(outcome))


def update(site: Site, action: Action) -> Work:
    """Write its new bookkeeping; no restart."""
    site.ledger.begin(action)
    site.operations.update(site.running[action.engine], site.wanted[action.engine].spec.bookkeeping)
    site.ledger.finish(action, ok=True, summary="updated")
    yield


def adopt(site: Site, action: Action) -> Work:
    """Give it a new supervisor, with new bookkeeping where that changed, and see it ready."""
    site.ledger.begin(action)
    seen = site.running[action.engine]
    if action.changes:
        site.operations.update(seen, site.wanted[action.engine].spec.bookkeeping)
    site.operations.adopt(seen)
    yield from see_ready(site, action)


def see_ready(site: Site, action: Action) -> Work:
    """Wait until it serves, or has ended."""
    watch = site.watch(action.engine)
    while True:
        sighting = watch.look()
        site.ledger.reporter.waiting(sighting)
        if sighting.phase is Phase.READY:
            site.ledger.finish(action, ok=True, summary="ready")
            return
        if sighting.phase.has_ended:
            failure = watch.failure()
            site.ledger.finish(action, ok=False, summary=failure.summary, failure=failure)
            return
        if enough := site.enough():
            site.ledger.finish(action, ok=enough.ok, summary=f"not ready yet: {enough.reason}; its supervisor goes on")
            return
        yield


WORK = {ActionKind.STOP: stop_for_good, ActionKind.UPDATE: update, ActionKind.ADOPT: adopt, ActionKind.KEEP: see_ready}
