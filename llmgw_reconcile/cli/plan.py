"""`llmgw plan`: show what apply would do, and change nothing."""

from __future__ import annotations

import os
import sys

import click

from llmgw_reconcile.cli.guarding import with_guard_warnings
from llmgw_reconcile.cli.options import host_from, look_of, look_options, node_options, output_option
from llmgw_reconcile.cli.states import state_from
from llmgw_reconcile.cli.streams import write
from llmgw_reconcile.errors import Diagnostic, NodeError, Severity
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.plan.actions import Plan
from llmgw_reconcile.render.plan_text import plan_text
from llmgw_reconcile.workflow.planning import make_plan

CHANGES = 2


@click.command("plan")
@click.argument("state")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there are changes and nothing is blocked.")
@click.option("--out", metavar="FILE", help="Save the plan, for `llmgw apply FILE`.")
@click.option("--from", "snapshot", metavar="SNAPSHOT.json", help="Plan against a recorded node, on any system.")
@click.option(
    "--peer-inventory",
    "inventories",
    multiple=True,
    metavar="FILE",
    help="Compare with another node of a group: what `llmgw agent inventory -o json` wrote there; repeatable.",
)
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Only this model or engine; repeatable.")
@output_option("text", "json", "markdown")
@node_options
@look_options
def command(
    state: str,
    detailed_exitcode: bool,  # noqa: FBT001 - click passes flags by name
    out: str | None,
    snapshot: str | None,
    inventories: tuple[str, ...],
    targets: tuple[str, ...],
    output: str,
    state_dir: str | None,
    node: str | None,
    color: str,
    quiet: bool,  # noqa: FBT001
    verbose: bool,  # noqa: FBT001
) -> int:
    """Show what `apply` would do to this node; change nothing.

    STATE is a state file, or - for standard input. Markdown is for pull requests; where GITHUB_STEP_SUMMARY names a
    file, it is added to that too.

    \b
    Examples:
      llmgw plan states/node.yaml
      llmgw plan states/node.yaml --detailed-exitcode
      llmgw plan states/node.yaml --from states/node.snapshot.json
      llmgw plan states/node.yaml -o markdown > comment.md
    """
    desired, data, base = state_from(state)
    peers: tuple[Inventory, ...] = ()
    if inventories:
        from llmgw_reconcile.cli.recorded import read_inventories

        peers = read_inventories(inventories)
    if snapshot is not None:
        from llmgw_reconcile.cli.offline import plan_offline

        planned = plan_offline(desired, snapshot, targets, peers)
        names: tuple[str, ...] = (planned.plan.node,)
    else:
        host = host_from(state_dir, node)
        planned, names = make_plan(host, desired, targets=targets, peers=peers), host.names
    if out is not None:
        from llmgw_reconcile.cli.saved_plan import save_plan

        save_plan(out, planned.plan, source=state, data=data, base=base, targets=targets)
    plan = _with_recorded_node(with_guard_warnings(planned, desired, names), state)
    _show(plan, output, color, quiet=quiet, verbose=verbose)
    return exit_code(planned.plan, detailed=detailed_exitcode)


def _with_recorded_node(plan: Plan, state: str) -> Plan:
    """With the command that plans for a recorded node, where this one has no GPUs and a recording lies beside STATE."""
    recorded = f"{os.path.splitext(state)[0]}.snapshot.json"
    blocking = {found.code for action in plan.actions for found in action.diagnostics}
    if "no-gpus" not in blocking or not os.path.isfile(recorded):
        return plan
    message, hint = "a recording of a node with GPUs lies beside it", f"llmgw plan {state} --from {recorded}"
    return plan._replace(
        diagnostics=(*plan.diagnostics, Diagnostic(Severity.NOTE, "recorded-node", state, message, hint))
    )


def exit_code(plan: Plan, *, detailed: bool) -> int:
    """1 when something is blocked or unreadable; 2 for changes, when that was asked for; else 0."""
    if plan.has_errors:
        return 1
    return CHANGES if detailed and plan.has_changes else 0


def _show(plan: Plan, output: str, color: str, *, quiet: bool, verbose: bool) -> None:
    if output == "json":
        from llmgw_reconcile.render.documents import document_text
        from llmgw_reconcile.render.plan_json import plan_document

        write(document_text(plan_document(plan)))
    elif output == "markdown":
        _show_markdown(plan)
    elif not quiet or plan.has_errors:
        look = look_of(sys.stdout, color)
        write(plan_text(plan, width=look.width, color=look.color, verbose=verbose))


def _show_markdown(plan: Plan) -> None:
    from llmgw_reconcile.render.markdown import plan_markdown

    text = plan_markdown(plan)
    write(text)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise NodeError(f"cannot add to GITHUB_STEP_SUMMARY, {summary}: {error.strerror}") from None
