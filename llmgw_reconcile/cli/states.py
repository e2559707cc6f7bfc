"""What the verbs need to know of a state file before they read it."""

from __future__ import annotations

from llmgw_reconcile.workflow.reading import state_from, state_from_bytes

__all__ = ["is_json", "state_from", "state_from_bytes"]


def is_json(data: bytes) -> bool:
    """Whether a file looks like a JSON document rather than YAML."""
    return data.lstrip()[:1] == b"{"
