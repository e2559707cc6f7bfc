"""`llmgw endpoints`: who can be routed to now, in the words of what routes there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import click

from llmgw_reconcile.cli.interruption import Interruption
from llmgw_reconcile.cli.options import Duration, color_option, host_from, look_of, node_options
from llmgw_reconcile.discovery.routable import Routable, find_routable, records_stamp
from llmgw_reconcile.errors import LlmgwError, NodeError, RefusedError
from llmgw_reconcile.host.rewrite import write_whole
from llmgw_reconcile.model.endpoint import Endpoint
from llmgw_reconcile.render.diagnostics import diagnostics_text
from llmgw_reconcile.workflow.host import Host

LOOK_SECONDS = 0.1  # between looks at the records
TEMPLATE_LIMIT = 1 << 20

Render = Callable[[tuple[Endpoint, ...]], str]


class Watch(NamedTuple):
    """A file to be kept as it should be; `interval`: seconds between probes while the records do not change."""

    file: str
    interval: float


@click.command("endpoints")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "prometheus-sd", "litellm", "nginx"]),
    help="What to write.  [default: text]",
)
@click.option("--template", metavar="FILE", help="Write FILE with its fields filled in instead.")
@click.option("--watch", metavar="FILE", help="Write to FILE, and again whenever that changes.")
@click.option("--interval", type=Duration(), default=10.0, metavar="D", help="Between two probes.  [default: 10s]")
@click.option("--address", metavar="HOST", help="How others reach this node, instead of its name.")
@node_options
@color_option
def command(
    output: str | None,
    template: str | None,
    watch: str | None,
    interval: float,
    address: str | None,
    state_dir: str | None,
    node: str | None,
    color: str,
) -> int:
    """Show the engines that requests can be sent to: those that pass all of readiness at this moment.

    An engine that is about to stop is left out before it is. Keys are named, never shown. Exits with 1 when the
    records of an engine could not be read.

    In a template, the lines between $each and $end, alone on their lines, are written for each endpoint with $engine,
    $model, $kind, $served (the first name), $names (all of them), $host, $port, $address, $url and $key (where its key
    is: env:NAME or file:/path) filled in; $node and $count anywhere; $$ is a dollar.

    \b
    Examples:
      llmgw endpoints
      llmgw endpoints -o nginx --watch /etc/nginx/conf.d/llmgw.conf
      llmgw endpoints -o prometheus-sd --watch /etc/prometheus/llmgw.json --address gpu-07.example.org
      llmgw endpoints --template haproxy.cfg.in
    """
    if template is not None and output is not None:
        raise click.UsageError("-o and --template exclude each other")
    host = host_from(state_dir, node)
    render = _rendering(host, output or "text", template, color if watch is None else "never")
    find = _finding(host, address or host.node)
    if watch is not None:
        Interruption()
        _keep(host, Watch(watch, interval), find, render)
    found = find()
    click.echo(render(found.endpoints), nl=False, color=True)
    click.echo(diagnostics_text(found.problems), err=True, nl=False)
    return 1 if found.problems else 0


def _finding(host: Host, address: str) -> Callable[[], Routable]:
    return lambda: find_routable(host.state_dir, host.environ, address=address)


def _rendering(host: Host, output: str, template: str | None, color: str) -> Render:
    """How the endpoints are to be written. Raises RefusedError for a template that cannot be used."""
    node = host.node
    if template is not None:
        from llmgw_reconcile.render.endpoint_template import template_text

        text = _read_template(template)
        template_text(template, text, node, ())  # refused now, and not when the first engine is ready
        return lambda endpoints: template_text(template, text, node, endpoints)
    if output == "text":
        from llmgw_reconcile.render.endpoints import endpoints_text

        look = look_of(sys.stdout, color)
        return lambda endpoints: endpoints_text(node, endpoints, color=look.color)
    if output == "json":
        from llmgw_reconcile.render.documents import document_text
        from llmgw_reconcile.render.endpoints import endpoints_document

        return lambda endpoints: document_text(endpoints_document(node, endpoints))
    from llmgw_reconcile.model.spec import model_of
    from llmgw_reconcile.render.routers import litellm_text, nginx_text, prometheus_sd_text

    if output == "nginx":
        return lambda endpoints: nginx_text(node, endpoints, list(map(model_of, host.state_dir.engine_names())))
    write = {"prometheus-sd": prometheus_sd_text, "litellm": litellm_text}[output]
    return lambda endpoints: write(node, endpoints)


def _read_template(path: str) -> str:
    from llmgw_reconcile.host.file_start import read_start

    try:
        data = read_start(path, TEMPLATE_LIMIT + 1)
        if len(data) > TEMPLATE_LIMIT:
            raise RefusedError(f"cannot use {path}: it is larger than {TEMPLATE_LIMIT} bytes")
        return data.decode()
    except OSError as error:
        raise RefusedError(f"cannot read the template {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RefusedError(f"cannot use {path}: it is not UTF-8 text") from None


def _keep(host: Host, watch: Watch, find: Callable[[], Routable], render: Render) -> None:
    """Write the file now and whenever it would be another one; ends by a signal only.

    Raises LlmgwError when it cannot be written at first. Later on it then stays as it is, and is tried again.
    """
    written = b""
    said = ""
    is_first = True
    while True:
        stamp, looked_at = records_stamp(host.state_dir), time.monotonic()
        try:
            found = find()
            text = render(found.endpoints).encode()
            if is_first or text != written:
                write_whole(watch.file, text)
            written, is_first = text, False
            trouble = diagnostics_text(found.problems).rstrip()
        except LlmgwError as error:
            if is_first and not isinstance(error, NodeError):
                raise
            trouble = f"{watch.file} stays as it is: {error}"
        if trouble and trouble != said:
            click.echo(trouble, err=True)
        said = trouble
        while records_stamp(host.state_dir) == stamp and time.monotonic() < looked_at + watch.interval:
            time.sleep(LOOK_SECONDS)
