"""`llmgw diff STATE`: compare a state file with the one that was applied last on this node."""

from __future__ import annotations

import os
import sys

import click

from llmgw_reconcile.cli.options import color_option, host_from, look_of, node_options, output_option
from llmgw_reconcile.cli.states import state_from
from llmgw_reconcile.errors import RefusedError, StateFileError
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DesiredState


@click.command("diff")
@click.argument("state", type=click.Path(allow_dash=True))
@output_option("text", "json")
@node_options
@color_option
def command(state: str, output: str, state_dir: str | None, node: str | None, color: str) -> int:
    """Show what STATE asks for differently from the file that was applied last on this node.

    Only the two files are compared: what runs, and what an apply would do about it, is what `llmgw plan` shows.

    \b
    Examples:
      llmgw diff states/node.yaml
      llmgw diff states/node.yaml -o json
    """
    from llmgw_reconcile.plan.state_diff import diff_states

    after, _, _ = state_from(state)
    before, applied_file = _applied(host_from(state_dir, node).state_dir)
    difference = diff_states(before, after)
    if output == "json":
        from llmgw_reconcile.render.documents import document_text
        from llmgw_reconcile.render.state_diff import state_diff_document

        click.echo(document_text(state_diff_document(difference, before=applied_file, after=state)), nl=False)
    else:
        from llmgw_reconcile.render.state_diff import state_diff_text

        look = look_of(sys.stdout, color)
        text = state_diff_text(difference, before=applied_file, after=state, width=look.width, color=look.color)
        click.echo(text, nl=False, color=True)
    return 0


def _applied(state_dir: StateDir) -> tuple[DesiredState, str | None]:
    """The state applied last and its file; an empty one and None where none was. Raises NodeError, RefusedError."""
    from llmgw_reconcile.statefile.load import load_state
    from llmgw_reconcile.workflow.applied import last_applied

    applied = last_applied(state_dir)
    if applied is None:
        return DesiredState("-", ()), None
    base = os.getcwd() if applied.file == "-" else os.path.dirname(applied.file)
    try:
        return load_state(applied.file, applied.data, base=base), applied.file
    except StateFileError as error:
        raise RefusedError(f"cannot understand the file applied last; apply a file anew: {error}") from None
