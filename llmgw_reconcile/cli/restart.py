"""`llmgw restart`: start engines afresh from their recorded spec, with what would be derived for it now."""

from __future__ import annotations

import click

from llmgw_reconcile.cli.engine_names import engines_named
from llmgw_reconcile.cli.interruption import INTERRUPTED, Interruption
from llmgw_reconcile.cli.options import Duration, host_from, look_options, node_options, output_option
from llmgw_reconcile.cli.stop_options import stop_options
from llmgw_reconcile.cli.voice import Voice
from llmgw_reconcile.workflow.applied import last_settings
from llmgw_reconcile.workflow.carry_out import Limits
from llmgw_reconcile.workflow.journal import Journal, Occasion
from llmgw_reconcile.workflow.locking import Locks
from llmgw_reconcile.workflow.restarting import plan_restart
from llmgw_reconcile.workflow.session import carry_out_actions


@click.command("restart")
@click.argument("engines", nargs=-1, required=True, metavar="ENGINE...")
@click.option("--no-wait", is_flag=True, help="Do not wait until the engines are ready.")
@click.option("--timeout", type=Duration(), metavar="D", help="Wait no longer than this for all of them.")
@click.option("--lock-timeout", type=Duration(), default=0.0, metavar="D", help="Wait so long for another command.")
@stop_options
@output_option("text", "json")
@node_options
@look_options
def command(
    engines: tuple[str, ...],
    no_wait: bool,  # noqa: FBT001 - click passes flags by name
    timeout: float | None,
    lock_timeout: float,
    drain: float,
    reason: str | None,
    output: str,
    state_dir: str | None,
    node: str | None,
    color: str,
    quiet: bool,  # noqa: FBT001
    verbose: bool,  # noqa: FBT001
) -> int:
    """Start engines afresh from what was recorded of them: also those that are held or have failed."""
    interruption = Interruption()
    host = host_from(state_dir, node)
    names = engines_named(engines, host.state_dir)
    settings = last_settings(host)
    voice = Voice(output, color=color, quiet=quiet, verbose=verbose)
    with Locks(host.state_dir, "llmgw restart", lock_timeout) as locks:
        locks.take_node()
        locks.take_engines(names)
        planned = plan_restart(host, names, settings)
        voice.show_plan(planned.plan)
        interruption.defer()
        outcomes = carry_out_actions(
            host,
            planned,
            voice.progress,
            Limits(wait=not no_wait, timeout=timeout, drain=drain),
            Journal(host, Occasion("llmgw restart", plan=planned.plan.digest, reason=reason), voice.say),
            is_interrupted=lambda: interruption.happened,
            on_acted=locks.release_node,
            held_above_mb=settings.held_above_mb,
        )
    voice.show_recap(outcomes, planned.plan.digest)
    if interruption.happened:
        voice.say(INTERRUPTED)
        return interruption.exit_code
    return 0 if all(outcome.ok for outcome in outcomes) else 1
