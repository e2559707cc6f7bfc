"""`llmgw plan`: show what apply would do, and change nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from llmgw_reconcile.cli.options import host_from, look_of, look_options, node_options, output_option
from llmgw_reconcile.cli.states import state_from
from llmgw_reconcile.plan.actions import Plan
from llmgw_reconcile.render.plan_text import plan_text

if TYPE_CHECKING:
    from llmgw_reconcile.workflow.planning import Planned

CHANGES = 2


@click.command("plan")
@click.argument("state")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there are changes and nothing is blocked.")
@click.option("--out", metavar="FILE", help="Save the plan, for `llmgw apply FILE`.")
@click.option("--from", "snapshot", metavar="SNAPSHOT.json", help="Plan against a recorded node, on any system.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Only this model or engine; repeatable.")
@output_option("text", "json")
@node_options
@look_options
def command(
    state: str,
    detailed_exitcode: bool,  # noqa: FBT001 - click passes flags by name
    out: str | None,
    snapshot: str | None,
    targets: tuple[str, ...],
    output: str,
    state_dir: str | None,
    node: str | None,
    color: str,
    quiet: bool,  # noqa: FBT001
    verbose: bool,  # noqa: FBT001
) -> int:
    """Show what `apply` would do to this node; change nothing.

    STATE is a state file, or - for standard input.

    \b
    Examples:
      llmgw plan states/node.yaml
      llmgw plan states/node.yaml --detailed-exitcode
      llmgw plan states/node.yaml --from states/node.snapshot.json
    """
    desired, data, base = state_from(state)
    if snapshot is not None:
        from llmgw_reconcile.cli.offline import plan_offline

        planned = plan_offline(desired, snapshot, targets)
    else:
        from llmgw_reconcile.workflow.planning import make_plan

        planned = make_plan(host_from(state_dir, node), desired, targets=targets)
    if out is not None:
        from llmgw_reconcile.cli.saved_plan import save_plan

        save_plan(out, planned.plan, source=state, data=data, base=base, targets=targets)
    _show(planned, output, color, quiet=quiet, verbose=verbose)
    return exit_code(planned.plan, detailed=detailed_exitcode)


def exit_code(plan: Plan, *, detailed: bool) -> int:
    """1 when something is blocked or unreadable; 2 for changes, when that was asked for; else 0."""
    if plan.has_errors:
        return 1
    return CHANGES if detailed and plan.has_changes else 0


def _show(planned: Planned, output: str, color: str, *, quiet: bool, verbose: bool) -> None:
    if output == "json":
        from llmgw_reconcile.render.documents import document_text
        from llmgw_reconcile.render.plan_json import plan_document

        click.echo(document_text(plan_document(planned.plan)), nl=False)
    elif not quiet or planned.plan.has_errors:
        look = look_of(sys.stdout, color)
        click.echo(plan_text(planned.plan, width=look.width, color=look.color, verbose=verbose), nl=False, color=True)
