"""`llmgw import`: write the state file that asks for what already runs on this node."""

from __future__ import annotations

import os

import click

from llmgw_reconcile.cli.options import host_from, node_options


@click.command("import")
@click.argument("file", required=False, type=click.Path())
@node_options
def command(file: str | None, state_dir: str | None, node: str | None) -> int:
    """Write the state file of what runs here: engines of llmgw by their records, others by what /proc shows of them.

    It goes to standard output, or to a FILE that does not exist yet, and is valid: an engine that it cannot say is
    written as a comment, with the reason. Secrets become references. Of other users' engines only root sees enough.
    Exits with 1 when the records of this node could not be read.

    \b
    Examples:
      llmgw import node.yaml
      llmgw import | llmgw plan -
    """
    from llmgw_reconcile.host.rewrite import existing_file, write_new
    from llmgw_reconcile.render.diagnostics import diagnostics_text
    from llmgw_reconcile.workflow.glance import glance
    from llmgw_reconcile.workflow.importing import import_state, others_engines

    if file is not None and os.path.lexists(file):
        raise existing_file(file)
    look = glance(host_from(state_dir, node))
    found = import_state(look, others_engines(look.observed))
    click.echo(diagnostics_text((*look.observed.problems, *found.warnings)), err=True, nl=False)
    if file is None:
        click.echo(found.text, nl=False)
    else:
        write_new(file, found.text.encode())
        models = "1 model" if found.entries == 1 else f"{found.entries} models"
        click.echo(f"wrote {click.format_filename(file)}: {models}")
    return 0 if look.observed.readable else 1
