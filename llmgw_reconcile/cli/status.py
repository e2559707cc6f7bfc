"""`llmgw status`: engines, phases, GPUs, ports, restarts and last exits, and who else holds the GPUs."""

from __future__ import annotations

import sys
import time

import click

from llmgw_reconcile.cli.options import color_option, host_from, look_of, node_options, output_option
from llmgw_reconcile.cli.streams import write
from llmgw_reconcile.discovery.status import look_at_status
from llmgw_reconcile.errors import Severity


@click.command("status")
@output_option("text", "json", "prometheus")
@node_options
@color_option
def command(output: str, state_dir: str | None, node: str | None, color: str) -> int:
    """Show the engines of this node. Exits with 1 when the node could not be read in full.

    With -o prometheus it writes metrics for the textfile collector of Prometheus's node_exporter.

    \b
    Examples:
      llmgw status
      llmgw status -o prometheus > /var/lib/node_exporter/llmgw.new; mv /var/lib/node_exporter/llmgw.{new,prom}
    """
    host = host_from(state_dir, node)
    look = look_at_status(host.state_dir, node=host.node, sys_root=host.sys_root, environ=host.environ)
    problems = (*look.inventory.problems, *look.observed.problems)
    if output == "json":
        from llmgw_reconcile.render.documents import document_text
        from llmgw_reconcile.render.status import status_document

        write(document_text(status_document(host.node, look.observed, look.foreign)))
    elif output == "prometheus":
        from llmgw_reconcile.render.prometheus import node_families, prometheus_text
        from llmgw_reconcile.workflow.metrics import node_report

        write(prometheus_text(node_families(node_report(host, look))))
    else:
        from llmgw_reconcile.render.status import status_text

        style = look_of(sys.stdout, color)
        indices = {gpu.uuid: gpu.index for gpu in look.inventory.gpus if gpu.uuid and gpu.index is not None}
        text = status_text(
            host.node,
            look.observed._replace(problems=problems),
            look.foreign,
            now=time.time(),
            gpu_indices=indices,
            width=style.width,
            color=style.color,
        )
        write(text)
    return 1 if any(problem.severity is Severity.ERROR for problem in problems) else 0
