"""`llmgw doctor`: check in a second what engines need of this node, with a cure for whatever is wrong."""

from __future__ import annotations

import sys

import click

from llmgw_reconcile.cli.options import color_option, host_from, look_of, node_options, output_option
from llmgw_reconcile.errors import Severity


@click.command("doctor")
@output_option("text", "json")
@node_options
@color_option
def command(output: str, state_dir: str | None, node: str | None, color: str) -> int:
    """Check this node: driver and GPUs, installed engines, limits, fabric, what runs, and llmgw's own records.

    Nothing is changed. Each finding comes with its cure; exits with 1 when one of them is an error.

    \b
    Examples:
      llmgw doctor
      llmgw doctor -o json
    """
    from llmgw_reconcile.workflow.checkup import check_node

    host = host_from(state_dir, node)
    checks = check_node(host)
    if output == "json":
        from llmgw_reconcile.render.checkup import checkup_document
        from llmgw_reconcile.render.documents import document_text

        click.echo(document_text(checkup_document(host.node, checks)), nl=False)
    else:
        from llmgw_reconcile.render.checkup import checkup_text

        look = look_of(sys.stdout, color)
        click.echo(checkup_text(checks, width=look.width, color=look.color), nl=False, color=True)
    return 1 if any(check.worst is Severity.ERROR for check in checks) else 0
