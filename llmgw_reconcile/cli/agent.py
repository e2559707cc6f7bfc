"""`llmgw agent …`: what a scheduler would see on this node."""

from __future__ import annotations

import sys

import click

from llmgw_reconcile.cli import agent_install, agent_run
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

    CUDA_VISIBLE_DEVICES makes no difference here, nor to engines: they get the GPUs that a plan gives them. Exits with
    1 when the GPUs could not be read; what is known is shown in any case.

    \b
    Examples:
      llmgw agent inventory
      llmgw agent inventory -o json
    """
    from llmgw_reconcile.discovery.engines import observe
    from llmgw_reconcile.discovery.inventory import begin_inventory
    from llmgw_reconcile.discovery.limit_warnings import warn_of_limits
    from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB

    host = host_from(state_dir, node)
    with begin_inventory(
        node=host.node,
        sys_root=host.sys_root,
        held_above_mb=DEFAULT_HELD_ABOVE_MB,
        with_versions=True,
        with_topology=True,
        with_slices=True,
    ) as pending:
        found = pending.finish(observe(host.state_dir))
    found = found._replace(problems=(*found.problems, *warn_of_limits(found)))
    if output == "json":
        from llmgw_reconcile.render.documents import document_text
        from llmgw_reconcile.render.inventory import inventory_document

        click.echo(document_text(inventory_document(found)), nl=False)
    else:
        from llmgw_reconcile.render.inventory_text import inventory_text

        look = look_of(sys.stdout, color)
        click.echo(inventory_text(found, width=look.width, color=look.color), nl=False, color=True)
    return 0 if found.gpus_known else 1


@command.command()
@output_option("json")
@node_options
def snapshot(output: str, state_dir: str | None, node: str | None) -> int:  # noqa: ARG001 - json is the only form
    """Record the node and what runs on it as one document, for `llmgw plan --from` elsewhere.

    It holds no secrets. Exits with 1 when the GPUs could not be read; what is known is printed in any case.

    \b
    Examples:
      llmgw agent snapshot > node.snapshot.json
    """
    from llmgw_reconcile.discovery.status import look_at_status
    from llmgw_reconcile.render.documents import document_text
    from llmgw_reconcile.render.snapshot import snapshot_document

    host = host_from(state_dir, node)
    look = look_at_status(
        host.state_dir, node=host.node, sys_root=host.sys_root, environ=host.environ, is_complete=True
    )
    click.echo(document_text(snapshot_document(look.inventory, look.observed, look.foreign)), nl=False)
    return 0 if look.inventory.gpus_known and look.observed.readable else 1


@command.command()
@node_options
def record(state_dir: str | None, node: str | None) -> int:
    """Record what this node's tools and kernel files say, to hand in with a report: `llmgw agent record > node.json`.

    UUIDs, GUIDs, addresses, serial numbers, host names and names of home directories are replaced by made-up ones, each
    always by the same one. Nothing is sent anywhere.

    \b
    Examples:
      llmgw agent record > node.json
    """
    from llmgw_reconcile.discovery.recording import record_node
    from llmgw_reconcile.render.documents import document_text

    host = host_from(state_dir, node)
    document, counts = record_node(sys_root=host.sys_root, node=host.node)
    click.echo(document_text(document), nl=False)
    masked = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing"
    click.echo(f"masked: {masked}; look through it before you hand it in", err=True)
    return 0


command.add_command(agent_run.command)
command.add_command(agent_install.command)
