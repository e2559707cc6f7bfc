"""Record what a node's tools and kernel files say, masked, so that other machines can be tested with it.

Whatever the inventory asks is recorded, and nothing else: the recorded answers give the same inventory again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from llmgw_reconcile.discovery.inventory import PendingInventory
from llmgw_reconcile.discovery.masking import Masks
from llmgw_reconcile.discovery.nvidia_smi import start_queries
from llmgw_reconcile.host.tool import ToolResult
from llmgw_reconcile.host.tree import RecordingTree
from llmgw_reconcile.model.desired import DEFAULT_HELD_ABOVE_MB
from llmgw_reconcile.model.observed import ObservedState

FORMAT_VERSION = 1


def record_node(*, sys_root: str, node: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The recording as a JSON document, and how many values of each kind were replaced in it.

    `node` and this machine's host name are masked wherever they stand.
    """
    tree = RecordingTree(sys_root)
    queries = start_queries(with_versions=True, with_topology=True, with_slices=True)
    with PendingInventory(
        node=node,
        sys=tree,
        proc_root="/proc",
        queries=queries,
        held_above_mb=DEFAULT_HELD_ABOVE_MB,
        with_fabric=True,
    ) as pending:
        pending.finish(ObservedState())
    masks = Masks(_names(node))
    document = {"tools": [_tool(answer) for answer in pending.report.answers], "sys": tree.record}
    return {"format_version": FORMAT_VERSION, **masks.document(document)}, masks.counts


def _tool(answer: ToolResult) -> dict[str, Any]:
    return answer._asdict() | {"argv": list(answer.argv)}


def _names(node: str) -> Iterable[str]:
    return {name for full in (node, os.uname().nodename) for name in (full, full.partition(".")[0])}
