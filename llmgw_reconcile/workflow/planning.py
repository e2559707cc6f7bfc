"""Make a plan: the state file and the node, through placement, launches and rules, to ordered actions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from llmgw_reconcile.discovery.engines import engine_finder, observe, with_probes
from llmgw_reconcile.discovery.inventory import begin_inventory
from llmgw_reconcile.engines.catalog import default_executable
from llmgw_reconcile.engines.launch import derive_launch
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.host.secrets import read_digest_key
from llmgw_reconcile.model.desired import DesiredState, Device, NodeSettings
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState
from llmgw_reconcile.model.spec import EngineSpec, engines_of
from llmgw_reconcile.placement.place import Placed, Running, place
from llmgw_reconcile.plan.actions import Action, Plan
from llmgw_reconcile.plan.digest import plan_digest
from llmgw_reconcile.plan.reconcile import Wanted, reconcile
from llmgw_reconcile.validate.node_rules import check_cordon, check_engine
from llmgw_reconcile.workflow.facts import find_executable, gather_facts, secret_digests, stranger_ports
from llmgw_reconcile.workflow.host import Host, own_account


class World(NamedTuple):
    """The node at one moment: recorded, or just looked at."""

    inventory: Inventory
    observed: ObservedState
    is_here: bool = True  # False: a snapshot of a node, planned for elsewhere


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
) -> Planned:
    """The plan for this state on this node, or on the recorded `world`. Changes nothing.

    `for_apply`: a secret that cannot be read blocks its engine. `targets` are models or engines: the rest is left out.
    Raises NodeError when a record of ours cannot be believed.
    """
    specs = tuple(spec for model in state.models for spec in engines_of(model))
    world = world or look(host, specs, state.node)
    others = {engine.engine for engine in world.observed.engines if targets and not is_target(engine.engine, targets)}
    checked = check_specs(host, specs, state.node, world, for_apply=for_apply, kept=others)
    wanted = tuple(one.wanted for one in checked)
    actions = reconcile(wanted, world.observed, world.inventory.gpus)
    diagnostics = (*state.warnings, *world.inventory.problems, *world.observed.problems)
    diagnostics += check_cordon(state.node.cordon, world.inventory)
    diagnostics += tuple(warning for one in checked for warning in one.warnings)
    if targets:
        actions = tuple(action for action in actions if is_target(action.engine, targets))
        diagnostics += (_partial(targets),)
    return Planned(build_plan(host.node, state.source, actions, diagnostics), world, wanted)


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
        held_above_mb=settings.held_above_mb,
    ) as pending:
        observed = with_probes(observe(host.state_dir, ports=_ports(specs, settings)), host.environ)
        return World(pending.finish(engine_finder(observed)), observed)


def is_target(engine: str, targets: Collection[str]) -> bool:
    """Whether `M@N` is meant by one of the names, `M` or `M@N`."""
    return engine in targets or engine.rpartition("@")[0] in targets


def _ports(specs: Sequence[EngineSpec], settings: NodeSettings) -> set[int]:
    ports = {spec.port for spec in specs if spec.port is not None}
    if len(ports) < len(specs):
        ports |= set(range(settings.ports[0], settings.ports[1] + 1))
    return ports


def check_specs(
    host: Host,
    specs: Sequence[EngineSpec],
    settings: NodeSettings,
    world: World,
    *,
    for_apply: bool,
    kept: Collection[str] = (),
) -> tuple[Checked, ...]:
    """Place, derive and check. A running engine whose replacement is blocked stays: the others are placed round it.

    `kept` are engines that stay in any case.
    """
    kept = set(kept)
    while True:
        placed = _place(host, specs, settings, world, kept)
        checked = tuple(_check_one(host, one, world, for_apply=for_apply) for one in placed)
        stuck = {one.wanted.spec.engine for one in checked if one.wanted.blocked}
        running = {seen.engine for seen in world.observed.engines if seen.live is not None}
        if stuck & running <= kept:
            return checked
        kept |= stuck & running


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
    return place(
        specs,
        world.inventory,
        running,
        ports=settings.ports,
        cordon=settings.cordon,
        busy_ports=busy,
        executables=executables,
        kept=kept,
    )


def _recorded_executable(spec: EngineSpec, world: World) -> str | None:
    """Planned elsewhere, only the record knows where the node's engines are installed."""
    seen = world.observed.find(spec.engine)
    argv = (seen.launch or {}).get("argv", ()) if seen else ()
    position = len(spec.model.prefix)
    return str(argv[position]) if len(argv) > position else None


def _check_one(host: Host, placed: Placed, world: World, *, for_apply: bool) -> Checked:
    spec, seen = placed.spec, world.observed.find(placed.spec.engine)
    digests, problems = _digests(host, spec, world)
    if placed.placement is None:
        return Checked(Wanted(spec, None, None, placed.refusals, digests))
    found = list(_findings(host, placed.placement, world, seen)) if world.is_here else []
    if for_apply:
        hint = "{env:} is read from the command that applies; {file:} works from everywhere"
        found += [Diagnostic(Severity.ERROR, "secret-unreadable", spec.engine, words, hint) for words in problems]
    tmp_dir = host.state_dir.engine(spec.engine).tmp
    launch = derive_launch(placed.placement, account=own_account(), tmp_dir=tmp_dir)
    # What would be derived here says nothing about a node that is elsewhere.
    stays = not world.is_here and seen is not None and seen.live is not None
    errors = tuple(one for one in found if one.severity is Severity.ERROR)
    wanted = Wanted(spec, placed.placement, None if stays else launch, errors, digests)
    return Checked(wanted, tuple(one for one in found if one.severity is Severity.WARNING))


def _digests(host: Host, spec: EngineSpec, world: World) -> tuple[dict[str, str | None], tuple[str, ...]]:
    if not world.is_here:
        return {}, ()
    return secret_digests(spec.model, read_digest_key(host.state_dir.digest_key), host.environ)


def _findings(host: Host, placement: Placement, world: World, seen: ObservedEngine | None) -> tuple[Diagnostic, ...]:
    problem = find_executable(placement.spec.model, host.environ)[1]
    is_running = seen is not None and seen.live is not None and seen.port == placement.port
    facts = gather_facts(placement, problem, stranger_ports(world.observed.listeners), is_running=is_running)
    return check_engine(placement, facts, world.inventory)


def _partial(targets: Collection[str]) -> Diagnostic:
    message = "only part of the state is planned: everything else is left as it is"
    return Diagnostic(Severity.WARNING, "partial-plan", ", ".join(sorted(targets)), message)
