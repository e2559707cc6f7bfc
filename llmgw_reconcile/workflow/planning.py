"""Make a plan: the state file and the node, through placement, launches and rules, to ordered actions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from llmgw_reconcile.discovery.engines import observe, with_probes
from llmgw_reconcile.discovery.inventory import begin_inventory
from llmgw_reconcile.engines.catalog import default_executable
from llmgw_reconcile.engines.launch import derive_launch
from llmgw_reconcile.errors import Diagnostic, RefusedError, Severity
from llmgw_reconcile.host.secrets import read_digest_key
from llmgw_reconcile.model.desired import DesiredState, Device, NodeSettings
from llmgw_reconcile.model.gpu import MIG_CLASS, MIG_UUID
from llmgw_reconcile.model.group import Network
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.place import Placed, Running, place
from llmgw_reconcile.plan.actions import Action, Plan
from llmgw_reconcile.plan.digest import plan_digest
from llmgw_reconcile.plan.reconcile import Wanted, reconcile, runs_unchanged
from llmgw_reconcile.validate.node_rules import check_cordon, check_engine
from llmgw_reconcile.validate.port_rules import hidden_ports_are_free
from llmgw_reconcile.workflow.facts import find_executable, gather_facts, secret_digests, stranger_ports
from llmgw_reconcile.workflow.grouping import (
    group_findings,
    look_at_network,
    meetings_of,
    needs_of,
    ports_of_interest,
    specs_here,
    unused_peers,
    with_member,
)
from llmgw_reconcile.workflow.host import Host, own_account
from llmgw_reconcile.workflow.lookup import Lookup


class World(NamedTuple):
    """The node at one moment: recorded, or just looked at."""

    inventory: Inventory
    observed: ObservedState
    is_here: bool = True  # False: a snapshot of a node, planned for elsewhere
    network: Network = Network()  # looked at for engines over several nodes only
    peers: tuple[Inventory, ...] = ()  # other nodes of their groups, to be compared with this one


class Planned(NamedTuple):
    """A plan and what it rests on."""

    plan: Plan
    world: World
    wanted: tuple[Wanted, ...]


class Checked(NamedTuple):
    """One engine with all that was found out for it; `warnings` speak of it without blocking it."""

    wanted: Wanted
    warnings: tuple[Diagnostic, ...] = ()


def make_plan(
    host: Host,
    state: DesiredState,
    *,
    world: World | None = None,
    for_apply: bool = False,
    targets: Collection[str] = (),
    peers: Sequence[Inventory] = (),
) -> Planned:
    """The plan for this state on this node, or on the recorded `world`. Changes nothing.

    `for_apply`: a secret that cannot be read blocks its engine. `targets` are models or engines: the rest is left out.
    `peers` are inventories of other nodes of its groups. Raises RefusedError for an unknown target, and NodeError when
    a record of ours cannot be believed.
    """
    specs = specs_here(state.models, host.names, is_here=world is None or world.is_here)
    world = (world or look(host, specs, state.node))._replace(peers=tuple(peers))
    _refuse_unknown(targets, {*(spec.engine for spec in specs), *(seen.engine for seen in world.observed.engines)})
    others = {engine.engine for engine in world.observed.engines if targets and not is_target(engine.engine, targets)}
    checked = check_specs(host, specs, state.node, world, for_apply=for_apply, kept=others)
    wanted = tuple(one.wanted for one in checked)
    actions = reconcile(wanted, world.observed, world.inventory.gpus)
    diagnostics = (*state.warnings, *world.inventory.problems, *world.observed.problems)
    diagnostics += check_cordon(state.node.cordon, world.inventory)
    diagnostics += tuple(warning for one in checked for warning in one.warnings)
    diagnostics += unused_peers(specs, peers)
    if targets:
        actions = tuple(action for action in actions if is_target(action.engine, targets))
        diagnostics += (_partial(targets),)
    return Planned(build_plan(host.node, state.source, actions, diagnostics), world, wanted)


def _refuse_unknown(targets: Collection[str], engines: Collection[str]) -> None:
    unknown = [target for target in targets if not any(is_target(engine, (target,)) for engine in engines)]
    if unknown:
        there = ", ".join(sorted(engines)) or "no engines"
        raise RefusedError(f"unknown target: {', '.join(unknown)}; the state and this node have {there}")


def build_plan(node: str, source: str, actions: tuple[Action, ...], diagnostics: Sequence[Diagnostic]) -> Plan:
    """The plan as a value, with its digest."""
    return Plan(node, source, actions, tuple(dict.fromkeys(diagnostics)), plan_digest(node, actions))


def look(host: Host, specs: Sequence[EngineSpec], settings: NodeSettings) -> World:
    """Look at the node: its GPUs where a GPU is at stake, its engines, and who listens on the ports of interest."""
    wants_gpus = any(spec.model.device is Device.CUDA for spec in specs)
    with begin_inventory(
        node=host.node,
        sys_root=host.sys_root,
        with_versions=False,
        with_gpus=wants_gpus,
        with_fabric=any(spec.model.nodes for spec in specs),
        held_above_mb=settings.held_above_mb,
    ) as pending:
        observed = with_probes(observe(host.state_dir, ports=ports_of_interest(specs, settings)), host.environ)
        network = look_at_network(specs)
        starting = [spec for spec in specs if (seen := observed.find(spec.engine)) is None or seen.live is None]
        pending.ask_for(topology=any(map(_is_group, starting)), slices=any(map(_asks_for_slice, starting)))
        return World(pending.finish(observed), observed, network=network)


def _is_group(spec: EngineSpec) -> bool:
    return spec.model.gpus_per_replica > 1


def _asks_for_slice(spec: EngineSpec) -> bool:
    """By the class or the UUID of a MIG device."""
    return MIG_CLASS in (spec.model.gpus.gpu_class or "") or any(name.startswith(MIG_UUID) for name in spec.gpu_ids)


def is_target(engine: str, targets: Collection[str]) -> bool:
    """Whether `M@N` is meant by one of the names, `M` or `M@N`."""
    return engine in targets or engine.rpartition("@")[0] in targets


def check_specs(
    host: Host,
    specs: Sequence[EngineSpec],
    settings: NodeSettings,
    world: World,
    *,
    for_apply: bool,
    kept: Collection[str] = (),
    afresh: Collection[str] = (),
) -> tuple[Checked, ...]:
    """Place, derive and check. A running engine whose replacement is blocked stays: the others are placed round it.

    `kept` are engines that stay in any case, `afresh` those that are started also when nothing changed.
    """
    kept, lookup = set(kept), Lookup(host)
    running = {seen.engine for seen in world.observed.engines if seen.live is not None}
    final: dict[str, Checked] = {}  # what was found against an engine holds, whatever the others make of the GPUs then
    while True:
        placed = _place(host, specs, settings, world, kept)
        checked = tuple(
            final.get(one.spec.engine)
            or _check_one(host, one, settings, world, lookup, for_apply=for_apply, afresh=afresh)
            for one in placed
        )
        blocked = {one.wanted.spec.engine: one for one in checked if one.wanted.blocked}
        stuck = blocked.keys() & running
        if stuck <= kept:
            return checked
        final.update({engine: blocked[engine] for engine in stuck})
        kept |= stuck


def _place(
    host: Host, specs: Sequence[EngineSpec], settings: NodeSettings, world: World, kept: Collection[str]
) -> tuple[Placed, ...]:
    running = {
        engine.engine: Running(engine.gpus, engine.port)
        for engine in world.observed.engines
        if engine.live is not None or engine.supervisor is not None
    }
    executables = {}
    for spec in specs:
        found = find_executable(spec.model, host.environ)[0] if world.is_here else _recorded_executable(spec, world)
        executables[spec.engine] = found or spec.model.executable or default_executable(spec.model.engine)
    busy = {port for port, _ in world.observed.listeners}
    meetings = meetings_of(specs)
    placed = place(
        specs,
        world.inventory,
        running,
        ports=settings.ports,
        cordon=settings.cordon,
        busy_ports=busy,
        executables=executables,
        kept=kept,
        port_needs=needs_of(specs, meetings),
        bound={seen.engine: _bound_indices(seen) for seen in world.observed.engines},
    )
    return tuple(with_member(one, meetings, settings, world.inventory, world.network) for one in placed)


def _bound_indices(seen: ObservedEngine) -> dict[str, str]:
    """The indices in the recorded `gpus.ids`, with the UUIDs that they stood for when the engine was started."""
    ids = (seen.spec or {}).get("gpus", {}).get("ids", ())
    return {
        name: uuid for name, uuid in zip(ids, (seen.launch or {}).get("gpus", ()), strict=False) if name.isdecimal()
    }


def _recorded_executable(spec: EngineSpec, world: World) -> str | None:
    """Planned elsewhere, only the record knows where the node's engines are installed."""
    seen = world.observed.find(spec.engine)
    argv = (seen.launch or {}).get("argv", ()) if seen else ()
    position = len(spec.model.prefix)
    return str(argv[position]) if len(argv) > position else None


def _check_one(
    host: Host,
    placed: Placed,
    settings: NodeSettings,
    world: World,
    lookup: Lookup,
    *,
    for_apply: bool,
    afresh: Collection[str],
) -> Checked:
    spec, seen = placed.spec, world.observed.find(placed.spec.engine)
    digests, problems = _digests(host, spec, world)
    wanted = Wanted(spec, placed.placement, None, placed.refusals, digests)
    if placed.placement is None:
        return Checked(wanted)
    needs_start = spec.engine in afresh or not runs_unchanged(wanted, seen)
    found = list(_findings(host, placed.placement, world, seen, lookup, needs_start)) if world.is_here else []
    found += group_findings(
        placed.placement, settings, world.inventory, world.network, world.peers, for_apply=for_apply
    )
    if for_apply:
        hint = "{env:} is read from the command that applies; {file:} works from everywhere"
        found += [Diagnostic(Severity.ERROR, "secret-unreadable", spec.engine, words, hint) for words in problems]
    tmp_dir = host.state_dir.engine(spec.engine).tmp
    launch = derive_launch(placed.placement, account=own_account(), tmp_dir=tmp_dir)
    if world.is_here:
        launch = launch._replace(
            engine_version=lookup.version(spec.model.engine, placed.placement.executable),
            model_files=lookup.content_marks(spec.model),
        )
    # What would be derived here says nothing about a node that is elsewhere.
    stays = not world.is_here and seen is not None and seen.live is not None
    errors = tuple(one for one in found if one.severity is Severity.ERROR)
    wanted = wanted._replace(launch=None if stays else launch, blocked=errors)
    return Checked(wanted, (*placed.warnings, *(one for one in found if one.severity is not Severity.ERROR)))


def _digests(host: Host, spec: EngineSpec, world: World) -> tuple[dict[str, str | None], tuple[str, ...]]:
    if not world.is_here:
        return {}, ()
    return secret_digests(spec.model, read_digest_key(host.state_dir.digest_key), host.environ)


def _findings(
    host: Host,
    placement: Placement,
    world: World,
    seen: ObservedEngine | None,
    lookup: Lookup,
    needs_start: bool,  # noqa: FBT001
) -> tuple[Diagnostic, ...]:
    problem = find_executable(placement.spec.model, host.environ)[1]
    is_running = seen is not None and seen.live is not None and seen.port == placement.port
    strangers = stranger_ports(world.observed.listeners)
    facts = gather_facts(placement, problem, strangers, lookup, is_running=is_running, needs_start=needs_start)
    findings = check_engine(placement, facts, world.inventory)
    return findings if is_running else (*findings, *hidden_ports_are_free(placement, strangers))


def _partial(targets: Collection[str]) -> Diagnostic:
    message = "only part of the state is planned: everything else is left as it is"
    return Diagnostic(Severity.WARNING, "partial-plan", ", ".join(sorted(targets)), message)
