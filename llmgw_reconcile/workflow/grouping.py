"""Engines over several nodes, on this node: where their ranks meet, what they talk over, and what is wrong with that.

A plan without such engines loads and looks at nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llmgw_reconcile.engines.ports import meeting_ports, port_needs
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import ModelSpec, NodeSettings
from llmgw_reconcile.model.group import Member, Network, rank_of
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement, PortNeeds
from llmgw_reconcile.model.spec import EngineSpec, engines_here
from llmgw_reconcile.placement.place import Placed


def specs_here(models: Sequence[ModelSpec], names: Sequence[str], *, is_here: bool) -> tuple[EngineSpec, ...]:
    """The engines that the node called `names` has a part in. One that `is_here` is also known by its addresses."""
    listed = [node.name for model in models for node in model.nodes]
    if listed and is_here:
        from llmgw_reconcile.discovery.interfaces import is_address, read_interfaces

        if any(map(is_address, listed)):
            names = (*names, *(address for interface in read_interfaces() for address in interface.addresses))
    return engines_here(models, names)


def look_at_network(specs: Iterable[EngineSpec]) -> Network:
    """What the groups among these engines need to know of this node's network; nothing is looked at without a group.

    Waits for the resolver no longer than `discovery.interfaces.RESOLVE_SECONDS`.
    """
    names = {node.address for spec in specs if spec.model.is_group for node in spec.model.nodes}
    if not names:
        return Network()
    from llmgw_reconcile.discovery.interfaces import read_interfaces, resolve_names

    return Network(read_interfaces(), resolve_names(sorted(names)))


def needs_of(specs: Iterable[EngineSpec], meetings: Mapping[str, int]) -> dict[str, PortNeeds]:
    """Engine -> the ports that it opens on this node."""
    return {spec.engine: port_needs(spec.model, spec.rank, meetings.get(spec.engine)) for spec in specs}


def meetings_of(specs: Iterable[EngineSpec]) -> dict[str, int]:
    """Engine over several nodes -> the port of its head where its ranks meet."""
    return meeting_ports({spec.model.name: spec.model for spec in specs}.values())


def ports_of_interest(specs: Sequence[EngineSpec], settings: NodeSettings) -> set[int]:
    """Every port that one of these engines may open here: by its file, or as one of `node.ports`."""
    needs = needs_of(specs, meetings_of(specs))
    found: set[int] = set()
    for spec in specs:
        need = needs[spec.engine]
        own = range(settings.ports[0], settings.ports[1] + 1) if spec.port is None else (spec.port,)
        for port in own if need.listens else (None,):
            found.update(need.all_of(port))
    return found


def with_member(
    placed: Placed, meetings: Mapping[str, int], settings: NodeSettings, inventory: Inventory, network: Network
) -> Placed:
    """The engine with this node's part in its group; unchanged when it runs on one node, or was not placed."""
    spec, placement = placed.spec, placed.placement
    nodes = spec.model.nodes
    if placement is None or not spec.model.is_group:
        return placed
    from llmgw_reconcile.engines.link import link_of

    link = link_of(nodes[spec.rank], settings.fabric, inventory, network)
    member = Member(spec.rank, len(nodes), nodes[0].address, meetings[spec.engine], link)
    return placed._replace(placement=placement._replace(member=member))


def group_findings(
    placement: Placement,
    settings: NodeSettings,
    inventory: Inventory,
    network: Network,
    peers: Sequence[Inventory],
    *,
    for_apply: bool,
) -> tuple[Diagnostic, ...]:
    """What speaks against this node's part, and where the inventories of the other nodes disagree with it."""
    if placement.member is None:
        return ()
    from llmgw_reconcile.validate.group_rules import check_peers
    from llmgw_reconcile.validate.member_rules import check_member

    of_node = check_member(placement, settings.fabric, inventory, network, for_apply=for_apply)
    return (*of_node, *check_peers(placement, inventory, settings.fabric, peers))


def unused_peers(specs: Iterable[EngineSpec], peers: Sequence[Inventory]) -> tuple[Diagnostic, ...]:
    """A warning for each inventory that was given and is of no node of any group here."""
    groups = [spec.model.nodes for spec in specs if spec.model.is_group]
    message = "its inventory was given, and no group here has this node"
    return tuple(
        Diagnostic(Severity.WARNING, "no-peer", peer.node, message)
        for peer in peers
        if all(rank_of(nodes, [peer.node]) is None for nodes in groups)
    )
