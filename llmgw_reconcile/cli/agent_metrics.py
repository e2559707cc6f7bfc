"""`llmgw agent run --metrics`: where the agent serves the metrics of its node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from llmgw_reconcile.workflow.host import Host

LOOPBACK = "127.0.0.1"


class ListenOn(NamedTuple):
    """An address of this node and a port."""

    host: str
    port: int


class ListenOnType(click.ParamType[ListenOn]):
    """`9401`, `0.0.0.0:9401` or `[::]:9401`."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> ListenOn:
        """Host and port; a usage error for anything else."""
        host, colon, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if colon else LOOPBACK
        if not (host and port.isascii() and port.isdecimal() and 1 <= int(port) <= 65535):
            self.fail(f"{value!r} is no port; write 9401, 0.0.0.0:9401 or [::]:9401", param, ctx)
        return ListenOn(host, int(port))


@contextmanager
def serving_metrics(host: Host, listen_on: ListenOn | None) -> Iterator[None]:
    """Serve them as long as the block runs; None: do not. Raises NodeError when that port cannot be had."""
    if listen_on is None:
        yield
        return
    from llmgw_reconcile.agent.metrics_server import MetricsServer
    from llmgw_reconcile.workflow.metrics import metrics_page

    server = MetricsServer(listen_on.host, listen_on.port, lambda: metrics_page(host))
    try:
        yield
    finally:
        server.close()
