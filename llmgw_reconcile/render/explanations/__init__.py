"""Every diagnostic code with its cause and its cure, for `llmgw explain`: one table for each part of the work."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_reconcile.render.explanations.explanation import Explanation


def explanations() -> Mapping[str, Explanation]:
    """All of them, sorted by code."""
    from llmgw_reconcile.render.explanations.engines import ENGINES
    from llmgw_reconcile.render.explanations.groups import GROUPS
    from llmgw_reconcile.render.explanations.node import NODE
    from llmgw_reconcile.render.explanations.running import RUNNING
    from llmgw_reconcile.render.explanations.state_file import STATE_FILE

    return dict(sorted({**STATE_FILE, **NODE, **ENGINES, **GROUPS, **RUNNING}.items()))


def explanation_of(code: str) -> Explanation | None:
    """That of one code; what follows a colon, as in `gpu-health:GPU-…`, does not count."""
    return explanations().get(code.partition(":")[0])
