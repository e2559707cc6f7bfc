"""Plan against a recorded node: on a laptop, in a pipeline, on any system."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from llmgw_reconcile.discovery.snapshot import world_of
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.schema_files import schema_text
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.statefile.read import read_plain_file
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.planning import Planned, World, make_plan


def plan_offline(state: DesiredState, path: str, targets: Sequence[str]) -> Planned:
    """The plan for the node that the snapshot recorded. Raises RefusedError when the file is no snapshot."""
    document = _read_snapshot(path)
    inventory, observed = world_of(document)
    host = Host(inventory.node, (inventory.node,), StateDir("/var/lib/llmgw"), os.environ, "/sys", SystemClock())
    return make_plan(host, state, world=World(inventory, observed, is_here=False), targets=targets)


def _read_snapshot(path: str) -> dict[str, object]:
    import jsonschema

    try:
        document = json.loads(read_plain_file(path))
    except OSError as error:
        raise RefusedError(f"cannot read the snapshot {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise RefusedError(f"cannot use {path}: it is not JSON") from None
    schema = json.loads(schema_text("snapshot"))
    misfit = jsonschema.exceptions.best_match(jsonschema.Draft7Validator(schema).iter_errors(document))
    if misfit is not None:
        place = "/".join(map(str, misfit.absolute_path)) or "the top"
        raise RefusedError(f"cannot use {path}: it is no snapshot of this version: {place}: {misfit.message[:200]}")
    assert isinstance(document, dict)
    return document
