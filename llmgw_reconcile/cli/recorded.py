"""Read documents that llmgw wrote elsewhere: each is compared with its schema before a field of it is believed."""

from __future__ import annotations

import json
from typing import Any

from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.host.schema_files import schema_text
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.statefile.read import read_plain_file


def read_document(path: str, kind: str) -> dict[str, Any]:
    """The document of that kind (`snapshot`, `inventory`) in a file. Raises RefusedError when it is none."""
    import jsonschema

    try:
        document = json.loads(read_plain_file(path))
    except OSError as error:
        raise RefusedError(f"cannot read the {kind} {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise RefusedError(f"cannot use {path}: it is not JSON") from None
    schema = json.loads(schema_text(kind))
    misfit = jsonschema.exceptions.best_match(jsonschema.Draft7Validator(schema).iter_errors(document))
    if misfit is not None:
        place = "/".join(map(str, misfit.absolute_path)) or "the top"
        raise RefusedError(f"cannot use {path}: it is no {kind} of this version: {place}: {misfit.message[:200]}")
    assert isinstance(document, dict)
    return document


def read_inventories(paths: tuple[str, ...]) -> tuple[Inventory, ...]:
    """What `llmgw agent inventory -o json` wrote on other nodes. Raises RefusedError for a file that is none."""
    from llmgw_reconcile.discovery.snapshot import inventory_of

    return tuple(inventory_of(read_document(path, "inventory")) for path in paths)
