"""`llmgw apply`: print the diff, then carry it out, and wait until every engine serves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

from llmgw_reconcile.cli.interruption import Interruption
from llmgw_reconcile.cli.locking import Locks
from llmgw_reconcile.cli.options import Duration, Look, host_from, look_of, look_options, node_options, output_option
from llmgw_reconcile.cli.progress import JsonProgress, TextProgress
from llmgw_reconcile.cli.saved_plan import SavedPlan, read_saved_plan
from llmgw_reconcile.cli.states import state_from_bytes
from llmgw_reconcile.errors import Diagnostic, RefusedError
from llmgw_reconcile.host.secrets import make_digest_key
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.plan.guards import guard_refusals
from llmgw_reconcile.render.plan_json import plan_document
from llmgw_reconcile.render.plan_text import plan_text
from llmgw_reconcile.render.recap import Outcome, recap_text
from llmgw_reconcile.statefile.read import read_state
from llmgw_reconcile.workflow.applied import record_applied
from llmgw_reconcile.workflow.carry_out import Limits
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.planning import Planned, make_plan
from llmgw_reconcile.workflow.session import carry_out_actions


class Consent(NamedTuple):
    """What the person said that this apply may do."""

    yes: bool
    max_stops: int | None
    allow_empty: bool
    expect: str | None


class Wish(NamedTuple):
    """What is to be applied."""

    state: DesiredState
    data: bytes
    targets: tuple[str, ...]
    saved: SavedPlan | None


@click.command("apply")
@click.argument("state")
@click.option("-y", "--yes", "--auto-approve", is_flag=True, help="Do not ask before stopping or replacing engines.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the engines are ready.")
@click.option("--timeout", type=Duration(), metavar="D", help="Wait no longer than this for all of them.")
@click.option("--parallel", type=click.IntRange(1), default=8, metavar="N", show_default=True, help="Starts at once.")
@click.option("--lock-timeout", type=Duration(), default=0.0, metavar="D", help="Wait so long for another apply.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Only this model or engine; repeatable.")
@click.option("--expect", metavar="DIGEST", help="Apply only the plan with this digest.")
@click.option("--max-stops", type=click.IntRange(0), metavar="N", help="How many engines may stop for good.")
@click.option("--allow-empty", is_flag=True, help="A state file without models may stop everything.")
@output_option("text", "json")
@node_options
@look_options
def command(
    state: str,
    yes: bool,  # noqa: FBT001 - click passes flags by name
    no_wait: bool,  # noqa: FBT001
    timeout: float | None,
    parallel: int,
    lock_timeout: float,
    targets: tuple[str, ...],
    expect: str | None,
    max_stops: int | None,
    allow_empty: bool,  # noqa: FBT001
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
    wish = _read_wish(state, targets)
    consent = Consent(yes, max_stops, allow_empty, wish.saved.digest if wish.saved else expect)
    host = host_from(state_dir, node)
    host.state_dir.create()
    make_digest_key(host.state_dir.digest_key)
    voice = _Voice(output, look_of(sys.stdout, color), look_of(sys.stderr, color), quiet=quiet, verbose=verbose)
    with Locks(host.state_dir, "llmgw apply", lock_timeout) as locks:
        locks.take_node()
        planned = make_plan(host, wish.state, for_apply=True, targets=wish.targets)
        locks.take_engines(_worked_on(planned))
        voice.show_plan(planned)
        _refuse_unless_allowed(host, wish, planned, consent)
        _ask(state, planned, consent)
        interruption.defer()
        record_applied(host, wish.state, wish.data, planned.plan.digest)
        outcomes = carry_out_actions(
            host,
            planned,
            voice.progress,
            Limits(parallel, wait=not no_wait, timeout=timeout),
            is_interrupted=lambda: interruption.happened,
            on_acted=locks.release_node,
            held_above_mb=wish.state.node.held_above_mb,
            state_digest=wish.state.digest,
        )
    voice.show_recap(planned, outcomes)
    if interruption.happened:
        voice.say("interrupted: what was started lives on; `llmgw status` shows it")
        return interruption.exit_code
    return 1 if planned.plan.has_errors or any(not outcome.ok for outcome in outcomes) else 0


class _Voice:
    """What apply prints, for people or for programs."""

    def __init__(self, output: str, out: Look, err: Look, *, quiet: bool, verbose: bool) -> None:
        self._out, self._quiet, self._verbose = out, quiet, verbose
        self._events = JsonProgress(click.echo) if output == "json" else None
        self.progress = self._events or TextProgress(self.say, width=err.width)

    def say(self, line: str) -> None:
        """A line about the work, on standard error."""
        if not self._quiet:
            click.echo(line, err=True)

    def show_plan(self, planned: Planned) -> None:
        """The diff, exactly as `plan` prints it."""
        if self._events:
            self._events.event("plan", plan=plan_document(planned.plan))
        elif not self._quiet or planned.plan.has_errors:
            text = plan_text(planned.plan, width=self._out.width, color=self._out.color, verbose=self._verbose)
            click.echo(text, nl=False, color=True)

    def show_recap(self, planned: Planned, outcomes: Sequence[Outcome]) -> None:
        """How it ended; nothing more where nothing was to be done."""
        if self._events:
            ended = [
                outcome._asdict() | {"action": str(outcome.action), "log_tail": list(outcome.log_tail)}
                for outcome in outcomes
            ]
            self._events.event("summary", outcomes=ended, digest=planned.plan.digest)
            return
        worked = [one for one in outcomes if one.action is not ActionKind.KEEP or one.seconds is not None]
        if worked and (not self._quiet or any(not one.ok for one in worked)):
            click.echo()
            click.echo(recap_text(outcomes, width=self._out.width, color=self._out.color), nl=False, color=True)


def _read_wish(path: str, targets: tuple[str, ...]) -> Wish:
    data, base = read_state(path)
    saved = read_saved_plan(path, data)
    if saved is None:
        return Wish(state_from_bytes(path, data, base), data, targets, None)
    if targets:
        raise RefusedError("a saved plan is carried out as it is: --target goes with `llmgw plan --out`")
    return Wish(state_from_bytes(saved.source, saved.data, saved.base), saved.data, saved.targets, saved)


def _worked_on(planned: Planned) -> list[str]:
    """Engines that something is done to, or that are on their way and waited for."""
    seen = {engine.engine: engine for engine in planned.world.observed.engines}
    return [
        action.engine
        for action in planned.plan.actions
        if action.kind not in (ActionKind.KEEP, ActionKind.BLOCKED)
        or (action.kind is ActionKind.KEEP and seen[action.engine].phase.is_on_its_way)
    ]


def _refuse_unless_allowed(host: Host, wish: Wish, planned: Planned, consent: Consent) -> None:
    """Raises RefusedError when the plan is not the expected one, or a guard speaks against it."""
    digest = planned.plan.digest
    if consent.expect is not None and consent.expect != digest:
        raise RefusedError(
            f"the plan is stale: {consent.expect} was approved, and what would be done now is {digest}; "
            "the node, its engines or the file changed since; plan again and have it approved"
        )
    refusals = guard_refusals(
        planned.plan,
        planned.world.observed,
        state_names_node=wish.state.node.name,
        node_names=host.names,
        state_is_empty=not wish.state.models,
        max_stops=consent.max_stops,
        allow_empty=consent.allow_empty,
        reviewed=consent.expect is not None,
    )
    if refusals:
        raise GuardError(refusals)


class GuardError(RefusedError):
    """Guards speak against the plan."""

    def __init__(self, refusals: tuple[Diagnostic, ...]) -> None:
        lines = [f"refused, nothing was changed: {one.where}: {one.message}\n  hint: {one.hint}" for one in refusals]
        super().__init__("\n".join(lines))


def _ask(path: str, planned: Planned, consent: Consent) -> None:
    """Ask a person at a terminal before a running engine is taken down. Raises RefusedError when the answer is no."""
    down = [action for action in planned.plan.actions if _takes_down(action)]
    if not down or consent.yes or consent.expect is not None:
        return
    if path == "-":
        raise RefusedError("this state, from standard input, stops or replaces engines: say so with -y")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return  # the committed state file is the approval
    names = ", ".join(f"{action.kind} {action.engine}" for action in down)
    if not click.confirm(f"This will {names}. Go on?", err=True):
        raise RefusedError("not approved; nothing was changed")


def _takes_down(action: Action) -> bool:
    return action.kind in (ActionKind.STOP, ActionKind.REPLACE)
