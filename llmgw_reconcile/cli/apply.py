"""`llmgw apply`: print the diff, then carry it out, and wait until every engine serves."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

from llmgw_reconcile.cli.guarding import Consent, GuardError, refusals_of
from llmgw_reconcile.cli.interruption import INTERRUPTED, Interruption
from llmgw_reconcile.cli.options import Duration, host_from, look_options, node_options, output_option
from llmgw_reconcile.cli.saved_plan import SavedPlan, read_saved_plan
from llmgw_reconcile.cli.states import state_from_bytes
from llmgw_reconcile.cli.stop_options import stop_options
from llmgw_reconcile.cli.voice import Voice
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.host.secrets import make_digest_key
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.render.recap import Outcome
from llmgw_reconcile.statefile.read import read_state
from llmgw_reconcile.workflow.applied import last_applied, record_applied, record_result
from llmgw_reconcile.workflow.asking import ask_engines
from llmgw_reconcile.workflow.carry_out import Limits
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.journal import Journal, Occasion, state_occasion
from llmgw_reconcile.workflow.locking import Locks
from llmgw_reconcile.workflow.planning import Planned, make_plan
from llmgw_reconcile.workflow.session import carry_out_actions


class Wish(NamedTuple):
    """What is to be applied."""

    state: DesiredState
    data: bytes
    targets: tuple[str, ...]
    saved: SavedPlan | None


@click.command("apply")
@click.argument("state", required=False)
@click.option("--last", is_flag=True, help="Apply once more what was applied last; as at boot.")
@click.option("-y", "--yes", "--auto-approve", is_flag=True, help="Do not ask before stopping or replacing engines.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the engines are ready.")
@click.option("--timeout", type=Duration(), metavar="D", help="Wait no longer than this for all of them.")
@click.option("--parallel", type=click.IntRange(1), default=8, metavar="N", show_default=True, help="Starts at once.")
@click.option("--lock-timeout", type=Duration(), default=0.0, metavar="D", help="Wait so long for another apply.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Only this model or engine; repeatable.")
@click.option("--expect", metavar="DIGEST", help="Apply only the plan with this digest.")
@click.option("--max-stops", type=click.IntRange(0), metavar="N", help="How many engines may stop for good.")
@click.option("--allow-empty", is_flag=True, help="A state file without models may stop everything.")
@stop_options
@output_option("text", "json")
@node_options
@look_options
def command(
    state: str | None,
    last: bool,  # noqa: FBT001 - click passes flags by name
    yes: bool,  # noqa: FBT001
    no_wait: bool,  # noqa: FBT001
    timeout: float | None,
    parallel: int,
    lock_timeout: float,
    targets: tuple[str, ...],
    expect: str | None,
    max_stops: int | None,
    allow_empty: bool,  # noqa: FBT001
    drain: float,
    reason: str | None,
    output: str,
    state_dir: str | None,
    node: str | None,
    color: str,
    quiet: bool,  # noqa: FBT001
    verbose: bool,  # noqa: FBT001
) -> int:
    """Print the diff, carry it out, and wait until every engine serves.

    STATE is a state file, a plan saved by `llmgw plan --out`, or - for standard input.

    \b
    Examples:
      llmgw apply states/node.yaml
      llmgw apply states/node.yaml --timeout 30m
      llmgw apply reviewed-plan.json
    """
    interruption = Interruption()
    host = host_from(state_dir, node)
    wish = _read_wish(state, targets, host if last else None)
    consent = Consent(yes, max_stops, allow_empty, _expected(wish, expect))
    host.state_dir.create()
    make_digest_key(host.state_dir.digest_key)
    voice = Voice(output, color=color, quiet=quiet, verbose=verbose)
    with Locks(host.state_dir, "llmgw apply", lock_timeout) as locks:
        locks.take_node()
        planned = _plan(host, wish, voice)
        locks.take_engines(_worked_on(planned))
        voice.show_plan(planned.plan)
        _refuse_unless_allowed(host, wish, planned, consent)
        if _ask(planned, consent, is_piped=state == "-"):
            _refuse_if_moved(planned, make_plan(host, wish.state, for_apply=True, targets=wish.targets))
        interruption.defer()
        if not last:  # its record says already whence it came
            record_applied(host, wish.state, wish.data, planned.plan.digest)
        limits = Limits(parallel, not no_wait, timeout, drain)
        occasion = state_occasion("llmgw apply", wish.state, planned.plan.digest, reason)
        outcomes = _carry_out(host, wish, planned, voice, limits, occasion, interruption, locks)
    voice.show_recap(outcomes, planned.plan.digest)
    if interruption.happened:
        voice.say(INTERRUPTED)
        return interruption.exit_code
    return 0 if _is_done(planned, outcomes) else 1


def _carry_out(
    host: Host,
    wish: Wish,
    planned: Planned,
    voice: Voice,
    limits: Limits,
    occasion: Occasion,
    interruption: Interruption,
    locks: Locks,
) -> tuple[Outcome, ...]:
    outcomes = carry_out_actions(
        host,
        planned,
        voice.progress,
        limits,
        Journal(host, occasion, voice.say),
        is_interrupted=lambda: interruption.happened,
        on_acted=locks.release_node,
        held_above_mb=wish.state.node.held_above_mb,
        whole=not wish.targets,
    )
    record_result(host, voice.say, ok=not interruption.happened and _is_done(planned, outcomes))
    return outcomes


def _is_done(planned: Planned, outcomes: Sequence[Outcome]) -> bool:
    return not planned.plan.has_errors and all(outcome.ok for outcome in outcomes)


def _read_wish(path: str | None, targets: tuple[str, ...], last_of: Host | None) -> Wish:
    """What the file says, or what was applied last on that node."""
    if (path is None) == (last_of is None):
        raise click.UsageError("name a state file, or say --last")
    if path is None:
        assert last_of is not None
        return _last_wish(last_of, targets)
    data, base = read_state(path)
    saved = read_saved_plan(path, data)
    if saved is None:
        return Wish(state_from_bytes(path, data, base), data, targets, None)
    if targets:
        raise RefusedError("a saved plan is carried out as it is: --target goes with `llmgw plan --out`")
    return Wish(state_from_bytes(saved.source, saved.data, saved.base), saved.data, saved.targets, saved)


def _last_wish(host: Host, targets: tuple[str, ...]) -> Wish:
    last = last_applied(host.state_dir)
    if last is None:
        raise RefusedError("nothing was applied on this node yet")
    return Wish(state_from_bytes(last.file, last.data, os.path.dirname(last.file) or "/"), last.data, targets, None)


def _plan(host: Host, wish: Wish, voice: Voice) -> Planned:
    """The plan, made again where the engines that are about to start told something that was not known."""
    planned = make_plan(host, wish.state, for_apply=True, targets=wish.targets)
    if ask_engines(host, planned, voice.say):
        return make_plan(host, wish.state, world=planned.world, for_apply=True, targets=wish.targets)
    return planned


def _worked_on(planned: Planned) -> list[str]:
    """Engines that something is done to, or that are on their way and waited for."""
    seen = {engine.engine: engine for engine in planned.world.observed.engines}
    return [
        action.engine
        for action in planned.plan.actions
        if action.kind not in (ActionKind.KEEP, ActionKind.BLOCKED)
        or (action.kind is ActionKind.KEEP and seen[action.engine].phase.is_on_its_way)
    ]


def _expected(wish: Wish, expect: str | None) -> str | None:
    """The digest that was approved. Raises RefusedError when the saved plan is not the approved one."""
    if wish.saved is None:
        return expect
    if expect not in (None, wish.saved.digest):
        raise RefusedError(f"the saved plan is {wish.saved.digest}, and {expect} was approved; nothing was changed")
    return wish.saved.digest


def _refuse_unless_allowed(host: Host, wish: Wish, planned: Planned, consent: Consent) -> None:
    """Raises RefusedError when the plan is not the approved one, or a guard speaks against it."""
    digest = planned.plan.digest
    if consent.expect not in (None, digest):
        raise RefusedError(
            f"the plan is stale: {consent.expect} was approved, and what would be done now is {digest}; "
            "the node, its engines or the file changed since; plan again and have it approved"
        )
    if refusals := refusals_of(planned, wish.state, host.names, consent):
        raise GuardError(refusals)


def _ask(planned: Planned, consent: Consent, *, is_piped: bool) -> bool:
    """Ask a person at a terminal before a running engine is taken down; whether it was asked.

    Raises RefusedError when the answer is no.
    """
    down = [action for action in planned.plan.actions if _takes_down(action)]
    if not down or consent.yes or consent.expect is not None:
        return False
    if is_piped:
        raise RefusedError("this state, from standard input, stops or replaces engines: say so with -y")
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False  # the committed state file is the approval
    names = ", ".join(f"{action.kind} {action.engine}" for action in down)
    try:
        approved = click.confirm(f"This will {names}. Go on?", err=True)
    except click.Abort:  # the end of input is no yes
        approved = False
    if not approved:
        raise RefusedError("not approved; nothing was changed")
    return True


def _refuse_if_moved(approved: Planned, now: Planned) -> None:
    """A person may take an hour to answer."""
    if now.plan.digest != approved.plan.digest:
        raise RefusedError("the node changed since the plan was shown; nothing was changed by this apply; apply again")


def _takes_down(action: Action) -> bool:
    return action.kind in (ActionKind.STOP, ActionKind.REPLACE)
