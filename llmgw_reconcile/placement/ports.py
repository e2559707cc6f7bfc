"""Engines and the ports in use to the port that each engine serves on."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from types import MappingProxyType

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.launch import PortNeeds
from llmgw_reconcile.model.spec import EngineSpec

SERVING_PORT_ONLY = PortNeeds()
NO_NEEDS: Mapping[str, PortNeeds] = MappingProxyType({})


def assign_ports(
    specs: Sequence[EngineSpec],
    held: Mapping[str, int],
    *,
    ports: tuple[int, int],
    busy: Container[int],
    kept: Collection[str],
    needs: Mapping[str, PortNeeds] = NO_NEEDS,
    ephemeral: tuple[int, int] | None = None,
) -> dict[str, int | Diagnostic | None]:
    """A port for each engine of `specs`, or why it gets none; None for one that serves nothing on this node.

    `held` are the ports that engines listen on now; `needs`, by engine, what it opens besides. The file's port decides.
    Without one, an engine keeps the port it has, and a new one gets the first of `ports` (both ends included) that
    nobody has, asks for, or keeps busy, and likewise for what it opens besides. Ports in the `ephemeral` range of the
    node come last: the kernel gives them to others.
    """
    undemanding = {spec.engine for spec in specs if spec.port is None}
    all_held = {engine: _need(engine, needs).all_of(port) for engine, port in held.items()}
    staying = {
        port: engine
        for engine, opened in all_held.items()
        if engine in kept or engine in undemanding
        for port in opened
    }
    spoken_for = {port for opened in all_held.values() for port in opened}
    spoken_for.update(port for spec in specs for port in _need(spec.engine, needs).all_of(_demand(spec, needs)))
    candidates = _in_order(ports, ephemeral)
    answers: dict[str, int | Diagnostic | None] = {}
    for spec in specs:
        need = _need(spec.engine, needs)
        if spec.port is not None or not need.listens:
            answers[spec.engine] = _asked_for(spec, _demand(spec, needs), need, staying)
        elif spec.engine in held:
            answers[spec.engine] = held[spec.engine]
        else:
            found = next((port for port in candidates if _is_free(port, need, spoken_for, busy)), None)
            spoken_for.update(() if found is None else need.all_of(found))
            answers[spec.engine] = found or _none_left(spec, ports)
    return answers


def _need(engine: str, needs: Mapping[str, PortNeeds]) -> PortNeeds:
    return needs.get(engine, SERVING_PORT_ONLY)


def _demand(spec: EngineSpec, needs: Mapping[str, PortNeeds]) -> int | None:
    return spec.port if _need(spec.engine, needs).listens else None


def _in_order(ports: tuple[int, int], ephemeral: tuple[int, int] | None) -> tuple[int, ...]:
    low, high = ephemeral or (0, -1)
    return tuple(sorted(range(ports[0], ports[1] + 1), key=lambda port: (low <= port <= high, port)))


def _is_free(port: int, need: PortNeeds, spoken_for: Collection[int], busy: Container[int]) -> bool:
    opened = (port, *(port + offset for offset in need.offsets))
    return not any(one in spoken_for or one in busy for one in opened)


def _asked_for(
    spec: EngineSpec, port: int | None, need: PortNeeds, staying: Mapping[int, str]
) -> int | Diagnostic | None:
    for opened in need.all_of(port):
        if (holder := staying.get(opened, spec.engine)) != spec.engine:
            message = f"port {opened} belongs to {holder}, which runs on it and asks for no port of its own"
            hint = f"choose another port, or give {holder} one"
            return Diagnostic(Severity.ERROR, "port-taken", spec.engine, message, hint)
    return port


def _none_left(spec: EngineSpec, ports: tuple[int, int]) -> Diagnostic:
    message = f"no port is left: each of {ports[0]}-{ports[1]} is given away or busy"
    return Diagnostic(Severity.ERROR, "no-free-port", spec.engine, message, "widen `node.ports`, or name a `port`")
