"""The rules of ports: those that the file names, those that engines open besides, and who has them already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from llmgw_reconcile.engines.ports import hidden_ports, meeting_ports, serves_on
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import DesiredState, ModelSpec
from llmgw_reconcile.model.inventory import DEFAULT_EPHEMERAL_PORTS
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.observed import ForeignProcess
from llmgw_reconcile.model.spec import engine_id

ANYWHERE: frozenset[str] = frozenset()


class Opened(NamedTuple):
    """One port that the file makes an engine open."""

    port: int
    engine: str
    model: ModelSpec
    nodes: frozenset[str]  # ANYWHERE: on each node where the file is applied
    what: str = ""  # empty for the port that it serves on

    def meets(self, other: Opened) -> bool:
        """Whether both are opened on one node."""
        return self.nodes == ANYWHERE or other.nodes == ANYWHERE or not self.nodes.isdisjoint(other.nodes)

    @property
    def words(self) -> str:
        """The engine, and what it opens the port for."""
        return f"{self.engine} ({self.what})" if self.what else self.engine


def ports_stay_below_the_ephemeral_range(state: DesiredState) -> Iterator[Diagnostic]:
    """The kernel gives ports of that range to whoever asks for any, other engines' workers among them."""
    low, high = DEFAULT_EPHEMERAL_PORTS
    where, hint = f"not below the ephemeral range, {low}-{high}", f"choose ports below {low}"
    for model in state.models:
        ports = range(0) if model.port is None else range(model.port, model.port + model.replicas)
        if ports and ports[-1] >= low:
            span = f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]}-{ports[-1]} of {len(ports)} replicas"
            yield _finding(Severity.ERROR, model, "ephemeral-port", f"{span}: {where}", hint)
        elif hidden := [one for one in _of_model(model, {}) if one.what and one.port >= low]:
            words = f"{hidden[0].words} opens port {hidden[0].port}"
            yield _finding(Severity.WARNING, model, "ephemeral-port", f"{words}: {where}", hint)
    if state.node.ports[1] >= low:
        message = f"node.ports: {state.node.ports[0]}-{state.node.ports[1]}: {where}"
        yield Diagnostic(Severity.ERROR, "ephemeral-port", state.source, message, hint)


def ports_are_unique(state: DesiredState) -> Iterator[Diagnostic]:
    """Replica k serves on port + k, and no two engines of a node open the same port, whatever their addresses."""
    meetings = meeting_ports(state.models)
    seen: dict[int, list[Opened]] = {}
    told: set[tuple[str, str]] = set()  # two models are told of once, however many ports they share
    for model in state.models:
        for opened in _of_model(model, meetings):
            others = seen.setdefault(opened.port, [])
            for twin in others:
                pair = (twin.model.name, model.name)
                if twin.engine != opened.engine and opened.meets(twin) and pair not in told:
                    told.add(pair)
                    yield _twice(opened, twin)
            others.append(opened)


def hidden_ports_are_free(placement: Placement, strangers: Mapping[int, ForeignProcess]) -> Iterator[Diagnostic]:
    """Nobody else listens on what the engine opens besides its serving port; `strangers` are by port."""
    member = placement.member
    meeting = member.port if member is not None and member.is_head else None
    for one in hidden_ports(placement.spec.model, meeting):
        port = one.port + (placement.port or 0) if one.from_serving else one.port
        if (stranger := strangers.get(port)) is not None:
            message = f"port {port} ({one.what}) is taken by {words_of(stranger)}"
            yield Diagnostic(Severity.ERROR, "port-taken", placement.spec.engine, message, "end that process")


def words_of(stranger: ForeignProcess) -> str:
    """`pid 4121 python app.py of alice`, as far as it is known."""
    who = "a process that is not visible" if stranger.pid is None else f"pid {stranger.pid}"
    return " ".join(filter(None, (who, stranger.command, f"of {stranger.user}" if stranger.user else "")))


def _of_model(model: ModelSpec, meetings: Mapping[str, int]) -> Iterator[Opened]:
    """The ports of all replicas: of an engine over several nodes those of its head, then those of the others."""
    names = [node.name.lower() for node in model.nodes]
    for replica in range(model.replicas):
        engine = engine_id(model.name, replica)
        serving = None if model.port is None else model.port + replica
        yield from _on(model, engine, serving, 0, frozenset(names[:1]), meetings.get(engine))
        if model.is_group:
            yield from _on(model, engine, serving, 1, frozenset(names[1:]), None)


def _on(
    model: ModelSpec, engine: str, serving: int | None, rank: int, nodes: frozenset[str], meeting: int | None
) -> Iterator[Opened]:
    if serving is not None and serves_on(model, rank):
        yield Opened(serving, engine, model, nodes)
    for one in hidden_ports(model, meeting):
        if not one.from_serving:
            yield Opened(one.port, engine, model, nodes, one.what)
        elif serving is not None:
            yield Opened(serving + one.port, engine, model, nodes, one.what)


def _twice(opened: Opened, twin: Opened) -> Diagnostic:
    model = opened.model
    if not opened.what and not twin.what:
        message = f"{opened.engine} would listen on port {opened.port}, as {twin.engine} does"
        hint = "replica k of a model listens on port + k"
    else:
        message = f"{opened.words} would open port {opened.port}, as {twin.words} does"
        hint = "choose other ports for one of them"
    place = twin.model.position("port")
    return _finding(Severity.ERROR, model, "port-twice", f"{message} ({place})", hint)


def _finding(severity: Severity, model: ModelSpec, code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(severity, code, model.position("port"), f"{model.name}: {message}", hint)
