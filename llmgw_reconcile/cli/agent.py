"""`llmgw agent …`: what a scheduler would see on this node."""

from __future__ import annotations

import click


@click.group()
def command() -> None:
    """What a scheduler would see on this node."""


@command.command()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print the inventory.")
@click.option("--node", metavar="NAME", help="Name of this node; default: its host name.")
@click.option("--state-dir", metavar="DIR", help="Where llmgw keeps its records.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the table.")
def inventory(output: str, node: str | None, state_dir: str | None, color: str) -> int:
    """Show GPUs, RDMA adapters and limits: what is fit, what is not and why, and who holds the cards.

    Exits with 1 when the GPUs could not be read; what is known is shown in any case.
    """
    import os
    import sys

    from llmgw_reconcile.discovery.engines import engine_finder, observe
    from llmgw_reconcile.discovery.inventory import begin_inventory
    from llmgw_reconcile.host.state_dir import find_state_dir
    from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB
    from llmgw_reconcile.render.documents import document_text
    from llmgw_reconcile.render.inventory import inventory_document, inventory_text
    from llmgw_reconcile.render.terminal import terminal_width, wants_color

    name = node or os.uname().nodename
    with begin_inventory(
        node=name,
        sys_root=os.environ.get("LLMGW_SYSFS_ROOT") or "/sys",
        with_versions=True,
        held_above_mb=DEFAULT_HELD_ABOVE_MB,
    ) as pending:
        ours = engine_finder(observe(find_state_dir(state_dir, os.environ, name)))
        found = pending.finish(ours)
    if output == "json":
        click.echo(document_text(inventory_document(found)), nl=False)
    else:
        isatty = sys.stdout.isatty()
        width = terminal_width(os.environ, os.get_terminal_size(sys.stdout.fileno()).columns if isatty else None)
        colored = wants_color(color, os.environ, isatty=isatty)
        click.echo(inventory_text(found, width=width, color=colored), nl=False, color=True)
    return 0 if found.gpus_known else 1


@command.command()
@click.option("-o", "--output", type=click.Choice(["json"]), default="json", help="How to print the snapshot.")
@click.option("--node", metavar="NAME", help="Name of this node; default: its host name.")
@click.option("--state-dir", metavar="DIR", help="Where llmgw keeps its records.")
def snapshot(output: str, node: str | None, state_dir: str | None) -> int:  # noqa: ARG001 - json is the only form
    """Record the node and what runs on it as one document, for `llmgw plan --from` elsewhere.

    It holds no secrets. Exits with 1 when the GPUs could not be read; what is known is printed in any case.
    """
    from llmgw_reconcile.cli.options import host_from
    from llmgw_reconcile.discovery.status import look_at_status
    from llmgw_reconcile.render.documents import document_text
    from llmgw_reconcile.render.snapshot import snapshot_document

    host = host_from(state_dir, node)
    look = look_at_status(
        host.state_dir, node=host.node, sys_root=host.sys_root, environ=host.environ, with_versions=True
    )
    click.echo(document_text(snapshot_document(look.inventory, look.observed, look.foreign)), nl=False)
    return 0 if look.inventory.gpus_known and look.observed.readable else 1
