"""Ready engines to the configuration of what routes requests or scrapes metrics: Prometheus, LiteLLM and nginx."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from llmgw_reconcile.model.endpoint import Endpoint

NO_KEY = "none"  # OpenAI's client, which LiteLLM calls, does without a key only if it has one
NOBODY = "127.0.0.1:9"  # RFC 863's discard: named as `down`, nginx never sends there
_HEADER = "# Written by `llmgw endpoints`: the engines of {node} that are ready.\n"


def prometheus_sd_text(node: str, endpoints: Sequence[Endpoint]) -> str:
    """A list of targets for Prometheus's `file_sd_configs`; each engine's metrics are at /metrics."""
    groups = [
        {
            "targets": [endpoint.address],
            "labels": {
                "llmgw_engine": endpoint.engine,
                "llmgw_kind": endpoint.kind,
                "llmgw_model": endpoint.model,
                "llmgw_node": node,
            },
        }
        for endpoint in endpoints
    ]
    return json.dumps(groups, indent=2) + "\n"


def litellm_text(node: str, endpoints: Sequence[Endpoint]) -> str:
    """The `model_list` of a LiteLLM proxy: an entry for each name and engine; it spreads requests over equal names.

    LiteLLM takes keys from its environment, so that a key in a file is named by a variable to be set from it.
    """
    variables = {endpoint.engine: _variable(endpoint) for endpoint in endpoints if endpoint.api_key}
    files = {variables[e.engine]: e.api_key.name for e in endpoints if e.api_key and e.api_key.source == "file"}
    lines = [f"# {name} must hold the content of {json.dumps(path)}\n" for name, path in sorted(files.items())]
    entries = [line for endpoint in endpoints for line in _litellm_entries(endpoint, variables.get(endpoint.engine))]
    return "".join([_header(node), *lines, "model_list:\n" if entries else "model_list: []\n", *entries])


def _litellm_entries(endpoint: Endpoint, variable: str | None) -> Iterator[str]:
    for name in endpoint.served:
        yield f"  - model_name: {json.dumps(name)}\n"
        yield "    litellm_params:\n"
        yield f"      model: {json.dumps(f'openai/{name}')}\n"
        yield f"      api_base: {json.dumps(f'{endpoint.url}/v1')}\n"
        yield f"      api_key: {json.dumps(f'os.environ/{variable}' if variable else NO_KEY)}\n"


def _variable(endpoint: Endpoint) -> str:
    """The variable that holds its key: its own, or one named after the model."""
    assert endpoint.api_key is not None
    if endpoint.api_key.source == "env":
        return endpoint.api_key.name
    return "LLMGW_KEY_" + re.sub(r"\W", "_", endpoint.model, flags=re.ASCII).upper()


def nginx_text(node: str, endpoints: Sequence[Endpoint], models: Sequence[str]) -> str:
    """An `upstream llmgw_M` for each model M of the node, for `proxy_pass http://llmgw_M`.

    `models` are all that there may be: nginx would not load a configuration that names an upstream without a server,
    so one that nobody serves now has a server that is down, and answers 502.
    """
    blocks = []
    for model in sorted({*models, *(endpoint.model for endpoint in endpoints)}):
        servers = [f"    server {endpoint.address};\n" for endpoint in endpoints if endpoint.model == model]
        nobody = [f"    server {NOBODY} down;  # no engine is ready\n"]
        blocks.append("".join([f"upstream llmgw_{model} {{\n", *(servers or nobody), "}\n"]))
    return "\n".join([_header(node), *blocks])


def _header(node: str) -> str:
    return _HEADER.format(node=re.sub(r"[^\w.-]", "?", node))
