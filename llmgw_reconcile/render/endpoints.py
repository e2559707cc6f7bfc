"""Ready engines to a table for people, and to the JSON document of `llmgw endpoints`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmgw_reconcile.model.endpoint import Endpoint
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.render.documents import FORMAT_VERSION
from llmgw_reconcile.render.terminal import Style, columns, painter

_HEADINGS = ("ENGINE", "SERVED AS", "URL", "KEY")


def endpoints_document(node: str, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The endpoints as JSON values; a key by its reference, null where there is none."""
    return {
        "format_version": FORMAT_VERSION,
        "node": node,
        "endpoints": [
            {
                "engine": endpoint.engine,
                "model": endpoint.model,
                "kind": endpoint.kind,
                "served": list(endpoint.served),
                "host": endpoint.host,
                "port": endpoint.port,
                "url": endpoint.url,
                "api_key": endpoint.api_key.as_json if endpoint.api_key else None,
                "labels": dict(endpoint.labels),
            }
            for endpoint in endpoints
        ],
    }


def endpoints_text(node: str, endpoints: Sequence[Endpoint], *, color: bool = False) -> str:
    """A line for each, or one sentence when nobody can be routed to."""
    if not endpoints:
        return f"No engine on {neutralise(node)} is ready now.\n"
    rows = [[neutralise(cell) for cell in _cells(endpoint)] for endpoint in endpoints]
    heading, *lines = columns([_HEADINGS, *rows])
    return "".join(f"{line}\n" for line in (painter(color=color)(heading, Style.STRONG), *lines))


def _cells(endpoint: Endpoint) -> tuple[str, ...]:
    return (endpoint.engine, ", ".join(endpoint.served), endpoint.url, key_text(endpoint) or "-")


def key_text(endpoint: Endpoint) -> str:
    """Where its key is to be found, in one word: `file:/etc/llmgw/key`; empty where it has none."""
    return f"{endpoint.api_key.source}:{endpoint.api_key.name}" if endpoint.api_key else ""
