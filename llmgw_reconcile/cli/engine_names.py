"""Names on the command line to engines of this node: `M` means all replicas, `M@N` one."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.spec import model_of


def engines_named(names: Sequence[str], state_dir: StateDir) -> tuple[str, ...]:
    """The engines, sorted; all where no name is given.

    Raises RefusedError for a name that no record knows, and NodeError for records that others may write to.
    """
    state_dir.check()
    known = state_dir.engine_names()
    if not names:
        return known
    found = {engine for engine in known for name in names if name in (engine, model_of(engine))}
    unknown = [name for name in names if not any(name in (engine, model_of(engine)) for engine in known)]
    if unknown:
        there = ", ".join(known) or "none"
        raise RefusedError(f"unknown engine: {', '.join(unknown)}; this node has {there}")
    return tuple(sorted(found))


def one_engine_named(name: str, state_dir: StateDir) -> str:
    """The one engine of that name. Raises RefusedError when there is none, or more than one."""
    found = engines_named((name,), state_dir)
    if len(found) > 1:
        raise RefusedError(f"{name} has several replicas: name one of {', '.join(found)}")
    return found[0]
