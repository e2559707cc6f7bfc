"""Refuse a plan that is probably a mistake: one function per guard, all always asked (contract §2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState
from llmgw_reconcile.plan.actions import ActionKind, Plan


def guard_refusals(
    plan: Plan,
    observed: ObservedState,
    *,
    state_names_node: str | None,
    node_names: Sequence[str],
    state_is_empty: bool,
    max_stops: int | None,
    allow_empty: bool,
    reviewed: bool,
) -> tuple[Diagnostic, ...]:
    """Why an apply must not carry this plan out, each with what is needed to go on; empty when it may.

    `node_names` are the names this node goes by (host name, --node); `state_is_empty`: the file has no models;
    `max_stops`: how many engines a person said may stop for good; `reviewed`: a person approved this very plan.
    """
    running = {engine.engine: engine for engine in observed.engines if engine.live or engine.supervisor}
    refusals = [*_other_node(state_names_node, node_names), *_protected(plan, running)]
    if not allow_empty and state_is_empty and running:
        refusals.append(_empty(plan, running))
    if not reviewed:
        refusals += _too_many_stops(plan, running, max_stops)
    return tuple(refusals)


def _other_node(wanted: str | None, names: Sequence[str]) -> Iterator[Diagnostic]:
    known = [name.lower() for name in names]
    if wanted is None or wanted.lower() in (*known, *(name.partition(".")[0] for name in known)):
        return
    message = f"the state file is for node {wanted}, and this is {names[0] if names else 'a node without a name'}"
    yield _refusal("other-node", wanted, message, f"apply it on {wanted}, or say that this is it: --node {wanted}")


def _protected(plan: Plan, running: dict[str, ObservedEngine]) -> Iterator[Diagnostic]:
    for action in plan.actions:
        engine = running.get(action.engine)
        if engine is None or not (engine.bookkeeping or {}).get("protect"):
            continue
        if action.kind is ActionKind.STOP or (action.kind is ActionKind.REPLACE and not action.surge):
            message = f"it is recorded with `protect: true`, and this plan would {action.kind} it"
            hint = "apply `protect: false` for it first, with nothing else of it changed"
            yield _refusal("protected", action.engine, message, hint)


def _empty(plan: Plan, running: dict[str, ObservedEngine]) -> Diagnostic:
    message = f"the state file has no models, while {_engines(len(running))} here: {', '.join(running)}"
    return _refusal("empty-state", plan.state, message, "if all of them shall stop, add --allow-empty")


def _too_many_stops(plan: Plan, running: dict[str, ObservedEngine], max_stops: int | None) -> Iterator[Diagnostic]:
    """A replacement is no stop for good; left-over processes of an engine that ended are no running engine."""
    stops = [a.engine for a in plan.actions if a.kind is ActionKind.STOP and a.engine in running]
    if len(running) < 2 or len(stops) * 2 <= len(running) or len(stops) <= (max_stops or 0):
        return
    message = f"{len(stops)} of {len(running)} running engines would stop for good: {', '.join(stops)}"
    yield _refusal("too-many-stops", plan.node, message, f"if that is meant, add --max-stops {len(stops)}")


def _engines(count: int) -> str:
    return "1 engine runs" if count == 1 else f"{count} engines run"


def _refusal(code: str, where: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, where, message, hint)
