"""Engines and the ports in use to the port that each engine listens on."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.spec import EngineSpec


def assign_ports(
    specs: Sequence[EngineSpec],
    held: Mapping[str, int],
    *,
    ports: tuple[int, int],
    busy: Container[int],
    kept: Collection[str],
) -> dict[str, int | Diagnostic]:
    """A port for each engine of `specs`, or why it gets none; `held` are the ports that engines listen on now.

    The file's port decides. Without one, an engine keeps the port it has, and a new one gets the first of `ports` (both
    ends included) that nobody has, asks for, or keeps busy.
    """
    undemanding = {spec.engine for spec in specs if spec.port is None}
    staying = {port: engine for engine, port in held.items() if engine in kept or engine in undemanding}
    spoken_for = {*held.values(), *(spec.port for spec in specs if spec.port is not None)}
    free = (port for port in range(ports[0], ports[1] + 1) if port not in spoken_for and port not in busy)
    answers: dict[str, int | Diagnostic] = {}
    for spec in specs:
        if spec.port is not None:
            answers[spec.engine] = _asked_for(spec, spec.port, staying)
        elif spec.engine in held:
            answers[spec.engine] = held[spec.engine]
        else:
            answers[spec.engine] = next(free, None) or _none_left(spec, ports)
    return answers


def _asked_for(spec: EngineSpec, port: int, staying: Mapping[int, str]) -> int | Diagnostic:
    holder = staying.get(port, spec.engine)
    if holder == spec.engine:
        return port
    message = f"port {port} belongs to {holder}, which runs on it and asks for no port of its own"
    return Diagnostic(Severity.ERROR, "port-taken", spec.engine, message, f"choose another port, or give {holder} one")


def _none_left(spec: EngineSpec, ports: tuple[int, int]) -> Diagnostic:
    message = f"no port is left: each of {ports[0]}-{ports[1]} is given away or busy"
    return Diagnostic(Severity.ERROR, "no-free-port", spec.engine, message, "widen `node.ports`, or name a `port`")
