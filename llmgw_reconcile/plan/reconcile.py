"""Decide, for every engine that is wanted or observed, what an apply would do to it, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import NOTHING
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.launch import Launch, Placement, launch_document
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.gpus import RENUMBERED
from llmgw_reconcile.plan.actions import Action, ActionKind, FieldChange
from llmgw_reconcile.plan.diff import diff_documents, diff_launch, secret_changes
from llmgw_reconcile.plan.drift import drift_of
from llmgw_reconcile.plan.masking import shown_command, shown_environment

FIELDS_NAMED = 3  # in a reason; the changes themselves are all listed


class Wanted(NamedTuple):
    """One engine of the state file, with all that the lower floors found out for it."""

    spec: EngineSpec
    placement: Placement | None
    launch: Launch | None
    blocked: tuple[Diagnostic, ...] = ()  # why it cannot be started here
    secret_digests: Mapping[str, str | None] = (
        NOTHING  # "api_key" | "env.NAME" -> keyed digest; None: could not be read
    )


class _Node(NamedTuple):
    """What the decisions for all engines share."""

    cards: Mapping[str, Gpu]  # by UUID
    readable: bool  # False: the records are not all known, so nothing may be stopped


def reconcile(wanted: Sequence[Wanted], observed: ObservedState, gpus: Iterable[Gpu] = ()) -> tuple[Action, ...]:
    """Exactly one action for each engine that is wanted or lives, in the order of carrying out.

    Only engines whose ownership was proven get here. A record of an engine that is not wanted and of which nothing
    lives gives no action. `gpus` are the node's cards: they name those that running engines hold.
    """
    node = _Node({gpu.uuid: gpu for gpu in gpus if gpu.uuid}, observed.readable)
    seen = {engine.engine: engine for engine in observed.engines}
    actions = [_decide_wanted(want, seen.pop(want.spec.engine, None), node) for want in wanted]
    actions += [
        _decide_unwanted(engine, node)
        for engine in seen.values()
        if engine.live or engine.supervisor or engine.leftovers
    ]
    return tuple(sorted(actions, key=_order))


def _order(action: Action) -> tuple[int, str, int, str]:
    """Replica 10 comes after replica 9."""
    model, _, replica = action.engine.rpartition("@")
    return list(ActionKind).index(action.kind), model, len(replica), replica


def _decide_unwanted(seen: ObservedEngine, node: _Node) -> Action:
    lives = seen.live is not None or seen.supervisor is not None
    if lives and seen.spec is None:
        return _kept_blocked((_record_lost(seen.engine),), seen, node)
    if not node.readable:
        return _kept_blocked((_records_unreadable(seen.engine),), seen, node)
    reason = "the state file does not name it"
    if not lives:
        reason += f"; left-over processes of its last run end: {_pids(seen)}"
    return _running(ActionKind.STOP, reason, seen, node)._replace(diagnostics=seen.problems)


def _decide_wanted(want: Wanted, seen: ObservedEngine | None, node: _Node) -> Action:
    if seen is not None and _is_active(seen):
        action = _decide_active(want, seen, node)
    elif seen is None and not node.readable:
        action = _blocked(want, (_records_unreadable(want.spec.engine),))
    elif want.blocked:
        action = _blocked(want, want.blocked)
    else:
        action = _launching(ActionKind.START, _why_start(seen), want)
    found = (*action.diagnostics, *_not_compared(want, seen, action.kind), *(seen.problems if seen else ()))
    return action._replace(spec=want.spec, launch=want.launch, diagnostics=found)


def _is_active(seen: ObservedEngine) -> bool:
    """Whether it serves or is on its way, so that a start would make a second copy."""
    if seen.phase is Phase.STOPPING:
        return False
    return seen.live is not None or (seen.supervisor is not None and not seen.phase.has_ended)


def runs_unchanged(want: Wanted, seen: ObservedEngine | None) -> bool:
    """Whether it serves, or is on its way, exactly as the state file says: then nothing of it is started."""
    return seen is not None and _is_active(seen) and seen.spec is not None and not _spec_changes(want, seen)


def _decide_active(want: Wanted, seen: ObservedEngine, node: _Node) -> Action:
    if seen.spec is None:
        return _kept_blocked((_record_lost(seen.engine),), seen, node)
    changes = _spec_changes(want, seen)
    if changes:
        reasons = want.blocked if node.readable else (*want.blocked, _records_unreadable(seen.engine))
        if not reasons:
            return _launching(ActionKind.REPLACE, f"{_named(changes)} changed", want)._replace(changes=changes)
        return _kept_blocked(reasons, seen, node)._replace(changes=changes)
    if any(reason.code == RENUMBERED for reason in want.blocked):  # the file names another card than it runs on
        return _kept_blocked(want.blocked, seen, node)
    bookkeeping = diff_documents(seen.bookkeeping or {}, want.spec.bookkeeping, forces_replace=False)
    if seen.supervisor is None:
        action = _running(ActionKind.ADOPT, "it runs without a supervisor; it gets a new one", seen, node)
    elif bookkeeping:
        action = _running(ActionKind.UPDATE, f"{_named(bookkeeping)} changed; no restart needed", seen, node)
    else:
        action = _running(ActionKind.KEEP, _why_keep(seen), seen, node)
    return action._replace(
        changes=bookkeeping,
        at_next_start=_at_next_start(want, seen),
        diagnostics=(
            # What blocks a start is no reason to touch an engine that needs none.
            *(reason._replace(severity=Severity.WARNING) for reason in want.blocked),
            *drift_of(seen, node.cards.values()),
        ),
    )


def _spec_changes(want: Wanted, seen: ObservedEngine) -> tuple[FieldChange, ...]:
    found = diff_documents(seen.spec or {}, want.spec.document, forces_replace=True)
    changes = [change for change in found if not _is_unread_file(change)]
    known = {change.field for change in changes}
    rotated = secret_changes(seen.secret_digests or {}, want.secret_digests)
    changes += [change for change in rotated if change.field not in known]
    return tuple(sorted((*changes, *_pin_broken(want, seen))))


def _is_unread_file(change: FieldChange) -> bool:
    """A file that one side could not read is not compared; one that is named anew, or no more, changes `args` too."""
    return change.field.startswith("config_files.") and None in (change.before, change.after)


def _pin_broken(want: Wanted, seen: ObservedEngine) -> Iterator[FieldChange]:
    """A pin that the running version does not meet: the one that it names itself, else the recorded one."""
    pin, runs = want.spec.model.engine_version, seen.version or (seen.launch or {}).get("engine_version")
    if pin is None or runs is None:
        return
    from llmgw_reconcile.engines.version import matches  # pins are rare

    if not matches(pin, runs):
        yield FieldChange("engine_version", runs, pin, forces_replace=True)


def _not_compared(want: Wanted, seen: ObservedEngine | None, kind: ActionKind) -> list[Diagnostic]:
    """A warning for each secret that cannot be read here, or that the record of an engine that stays lacks."""
    stays = kind in (ActionKind.KEEP, ActionKind.UPDATE, ActionKind.ADOPT)
    recorded = (seen.secret_digests if seen else None) or {}
    found = []
    for field, digest in sorted(want.secret_digests.items()):
        if digest is None:
            message = f"{field} is not compared: the secret cannot be read here"
            hint = "an apply that has to start this engine needs it"
        elif stays and field not in recorded:
            message = f"{field} is not compared: the record of the running engine lacks it"
            hint = f"`llmgw restart {want.spec.engine}` records it"
        else:
            continue
        found.append(Diagnostic(Severity.WARNING, "secret-not-compared", want.spec.engine, message, hint))
    return found


def _at_next_start(want: Wanted, seen: ObservedEngine) -> tuple[FieldChange, ...]:
    if want.launch is None or seen.launch is None:
        return ()
    return diff_launch(seen.launch, launch_document(want.launch))


def _why_start(seen: ObservedEngine | None) -> str:
    if seen is None:
        return "not running"
    if seen.leftovers:
        return f"not running; left-over processes of its last run end first: {_pids(seen)}"
    if seen.phase is Phase.HELD:
        return "held: it was stopped by hand; this apply starts it again"
    if seen.phase is Phase.FAILED:
        ended = f" ({seen.last_exit.words})" if seen.last_exit.words else ""
        return f"failed before{ended}; this apply tries it again"
    if seen.phase is Phase.STOPPING:
        return "it is being stopped, and starts when that has ended"
    return f"not running: {seen.detail}" if seen.detail else "not running"


def _why_keep(seen: ObservedEngine) -> str:
    if seen.phase in (Phase.READY, Phase.DEGRADED):
        return "it runs as the state file says"
    return f"it is on its way as the state file says ({seen.phase})"


def _record_lost(engine: str) -> Diagnostic:
    message = "its record is lost, so what it was started with cannot be compared; it is left alone"
    hint = f"stop it with `llmgw stop {engine}`; the next apply starts it afresh"
    return Diagnostic(Severity.ERROR, "record-lost", engine, message, hint)


def _records_unreadable(engine: str) -> Diagnostic:
    message = "the records of this node could not be read in full, so nothing is stopped and no copy is started"
    hint = "cure what is said of the state directory, and plan again"
    return Diagnostic(Severity.ERROR, "records-unreadable", engine, message, hint)


def _blocked(want: Wanted, reasons: tuple[Diagnostic, ...]) -> Action:
    port = want.placement.port if want.placement else want.spec.port
    return Action(ActionKind.BLOCKED, want.spec.engine, "it cannot be started here", port=port, diagnostics=reasons)


def _kept_blocked(reasons: tuple[Diagnostic, ...], seen: ObservedEngine, node: _Node) -> Action:
    return _running(ActionKind.BLOCKED, "kept as it runs", seen, node)._replace(diagnostics=reasons)


def _launching(kind: ActionKind, reason: str, want: Wanted) -> Action:
    """An action that starts the derived launch."""
    gpus = want.placement.gpus if want.placement else ()
    launch = want.launch
    return Action(
        kind,
        want.spec.engine,
        reason,
        gpus=tuple(gpu.uuid or "" for gpu in gpus),
        gpu_labels=tuple(map(_label, gpus)),
        gpu_classes=tuple(gpu.gpu_class for gpu in gpus),
        port=want.placement.port if want.placement else want.spec.port,
        command=shown_command(launch.argv) if launch else (),
        environment=shown_environment(launch.env) if launch else (),
    )


def _running(kind: ActionKind, reason: str, seen: ObservedEngine, node: _Node) -> Action:
    """An action on the engine as it is: its own GPUs and port, and nothing to start."""
    held = [node.cards.get(uuid) for uuid in seen.gpus]
    return Action(
        kind,
        seen.engine,
        reason,
        gpus=seen.gpus,
        gpu_labels=tuple(_label(gpu) if gpu else uuid for gpu, uuid in zip(held, seen.gpus, strict=True)),
        gpu_classes=tuple(gpu.gpu_class if gpu else "unknown" for gpu in held),
        port=seen.port,
    )


def _label(gpu: Gpu) -> str:
    return str(gpu.index) if gpu.index is not None else gpu.pci_bus_id or gpu.uuid or "?"


def _named(changes: Sequence[FieldChange]) -> str:
    """`a`, `a and b`, `a, b, c and 2 more`."""
    names = [change.field for change in changes[:FIELDS_NAMED]]
    if len(changes) > FIELDS_NAMED:
        names.append(f"{len(changes) - FIELDS_NAMED} more")
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _pids(seen: ObservedEngine) -> str:
    return ", ".join(str(process.pid) for process in sorted(seen.leftovers))
