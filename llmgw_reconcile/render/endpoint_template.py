"""A person's template and ready engines to the text of any other router's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template

from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.model.endpoint import Endpoint
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.render.endpoints import key_text

EACH, END = "$each", "$end"  # alone on their lines
ENDPOINT_FIELDS = {
    "engine": "chat@0",
    "model": "chat, its name in the state file",
    "kind": "vllm, sglang or llama-cpp",
    "served": "the first name that requests may give",
    "names": "all of them, joined by commas",
    "host": "address, without brackets",
    "port": "port",
    "address": "host:port",
    "url": "http://host:port",
    "key": "env:NAME or file:/path of its key; empty without one",
}
COMMON_FIELDS = {"node": "this node", "count": "how many endpoints there are"}


def template_text(source: str, template: str, node: str, endpoints: Sequence[Endpoint]) -> str:
    """The template with its fields filled in; `$$` is a dollar.

    The lines between `$each` and `$end` are written once for each endpoint, all others once. `source` is the
    template's name for messages. Raises RefusedError for a field that is not known, outside of its place too.
    """
    common = {"node": neutralise(node), "count": str(len(endpoints))}
    parts: list[str] = []
    block: list[str] | None = None
    for number, line in enumerate(template.splitlines(keepends=True), start=1):
        where = f"{source}:{number}"
        if line.strip() == EACH:
            if block is not None:
                raise RefusedError(f"{where}: {EACH} inside of {EACH}: close the first one with {END}")
            block = []
        elif line.strip() == END:
            if block is None:
                raise RefusedError(f"{where}: {END} without {EACH}")
            parts += [piece.substitute(_fields(one) | common) for one in endpoints for piece in map(Template, block)]
            block = None
        elif block is not None:
            _filled(where, line, ENDPOINT_FIELDS | COMMON_FIELDS)
            block.append(line)
        else:
            parts.append(_filled(where, line, common))
    if block is not None:
        raise RefusedError(f"{source}: {EACH} without {END}")
    return "".join(parts)


def _filled(where: str, line: str, fields: Mapping[str, str]) -> str:
    """The line with these fields. Raises RefusedError for others."""
    try:
        return Template(line).substitute(fields)
    except KeyError as error:
        name = error.args[0]
        place = f", which stands between {EACH} and {END}" if name in ENDPOINT_FIELDS else ""
        raise RefusedError(
            f"{where}: there is no ${name} here{place}; there are {', '.join(f'${field}' for field in fields)}"
        ) from None
    except ValueError:
        raise RefusedError(f"{where}: a $ that begins no field; write $$ for a dollar") from None


def _fields(endpoint: Endpoint) -> dict[str, str]:
    fields = {
        "engine": endpoint.engine,
        "model": endpoint.model,
        "kind": endpoint.kind,
        "served": endpoint.served[0] if endpoint.served else "",
        "names": ",".join(endpoint.served),
        "host": endpoint.host,
        "port": str(endpoint.port),
        "address": endpoint.address,
        "url": endpoint.url,
        "key": key_text(endpoint),
    }
    return {name: neutralise(value) for name, value in fields.items()}
