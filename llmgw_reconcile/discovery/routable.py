"""Find who can be routed to: the engines that pass a whole round of readiness now, and are not about to stop."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.engines import observe, with_probes
from llmgw_reconcile.errors import Diagnostic, NodeError
from llmgw_reconcile.host.draining import MARK, is_draining
from llmgw_reconcile.host.proc import is_alive
from llmgw_reconcile.host.sockets import ANY_ADDRESS
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.endpoint import Endpoint
from llmgw_reconcile.model.launch import ReadyWhen
from llmgw_reconcile.model.observed import ObservedEngine, Phase

# What may serve by its records. An orphan that answers serves as well as any; one that starts is its supervisor's to
# call ready, since that may ask for more.
ASKED = (Phase.READY, Phase.DEGRADED, Phase.ORPHANED)


class Routable(NamedTuple):
    """Who can be routed to, sorted by engine; `problems` say whose records cannot be read, and who is missing so."""

    endpoints: tuple[Endpoint, ...]
    problems: tuple[Diagnostic, ...] = ()


def find_routable(state_dir: StateDir, environ: Mapping[str, str], *, address: str) -> Routable:
    """`address` is what others reach this node by, where an engine listens on every address.

    Waits for the slowest engine, up to the time-out of its probe. Raises NodeError when no records can be read: nobody
    is taken out of service because of that.
    """
    observed = observe(state_dir)
    if not observed.readable and not observed.engines:
        raise NodeError(f"cannot tell who can be routed to: {'; '.join(p.message for p in observed.problems)}")
    asked = tuple(engine._replace(phase=Phase.READY) for engine in observed.engines if _may_serve(engine))
    answered = with_probes(observed._replace(engines=asked), environ).engines
    # Looked at after the probes, so that who asked an engine to stop in the meantime is heard.
    ready = (engine for engine in answered if engine.phase is Phase.READY and _stays(engine, state_dir))
    return Routable(tuple(_endpoint(engine, address) for engine in ready), observed.problems)


def records_stamp(state_dir: StateDir) -> tuple[tuple[str, int], ...]:
    """Changes when an engine changes its phase, is started, or is about to stop; cheap enough to ask all the time."""
    return tuple(
        (path, _changed_at(path))
        for name in state_dir.engine_names()
        for path in map(state_dir.engine(name).file, ("launch.json", "phase.json", MARK))
    )


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _may_serve(engine: ObservedEngine) -> bool:
    serves = engine.launch is not None and engine.launch.get("readiness", ReadyWhen.SERVES) == ReadyWhen.SERVES
    return serves and engine.phase in ASKED and engine.live is not None and engine.port is not None


def _stays(engine: ObservedEngine, state_dir: StateDir) -> bool:
    alive = engine.live is not None and is_alive(engine.live)
    return alive and not is_draining(state_dir.engine(engine.engine))


def _endpoint(engine: ObservedEngine, address: str) -> Endpoint:
    assert engine.launch is not None
    assert engine.port is not None
    host = engine.host or ""
    key = engine.launch.get("api_key")
    return Endpoint(
        engine=engine.engine,
        kind=str(engine.launch.get("kind", "")),
        served=engine.served,
        host=address if host in ANY_ADDRESS else host,
        port=engine.port,
        api_key=SecretRef(*next(iter(key.items()))) if key else None,
        labels=(engine.bookkeeping or {}).get("labels", {}),
    )
