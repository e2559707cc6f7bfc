"""`llmgw agent …`: what a scheduler would see on this node."""

from __future__ import annotations

import sys

import click

from llmgw_reconcile.cli.options import color_option, host_from, look_of, node_options, output_option


@click.group()
def command() -> None:
    """What a scheduler would see on this node."""


@command.command()
@output_option("text", "json")
@node_options
@color_option
def inventory(output: str, state_dir: str | None, node: str | None, color: str) -> int:
    """Show GPUs, RDMA adapters and limits: what is fit, what is not and why, and who holds the cards.

    Exits with 1 when the GPUs could not be read; what is known is shown in any case.
    """
    from llmgw_reconcile.discovery.engines import engine_finder, observe
    from llmgw_reconcile.discovery.inventory import begin_inventory
    from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB

    host = host_from(state_dir, node)
    with begin_inventory(
        node=host.node, sys_root=host.sys_root, with_versions=True, held_above_mb=DEFAULT_HELD_ABOVE_MB
    ) as pending:
        found = pending.finish(engine_finder(observe(host.state_dir)))
    if output == "json":
        from llmgw_reconcile.render.documents import document_text
        from llmgw_reconcile.render.inventory import inventory_document

        click.echo(document_text(inventory_document(found)), nl=False)
    else:
        from llmgw_reconcile.render.inventory import inventory_text

        look = look_of(sys.stdout, color)
        click.echo(inventory_text(found, width=look.width, color=look.color), nl=False, color=True)
    return 0 if found.gpus_known else 1


@command.command()
@output_option("json")
@node_options
def snapshot(output: str, state_dir: str | None, node: str | None) -> int:  # noqa: ARG001 - json is the only form
    """Record the node and what runs on it as one document, for `llmgw plan --from` elsewhere.

    It holds no secrets. Exits with 1 when the GPUs could not be read; what is known is printed in any case.
    """
    from llmgw_reconcile.discovery.status import look_at_status
    from llmgw_reconcile.render.documents import document_text
    from llmgw_reconcile.render.snapshot import snapshot_document

    host = host_from(state_dir, node)
    look = look_at_status(
        host.state_dir, node=host.node, sys_root=host.sys_root, environ=host.environ, with_versions=True
    )
    click.echo(document_text(snapshot_document(look.inventory, look.observed, look.foreign)), nl=False)
    return 0 if look.inventory.gpus_known and look.observed.readable else 1
