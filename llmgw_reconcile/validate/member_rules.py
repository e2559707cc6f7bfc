"""The rules of this node's part in an engine over several nodes. One function per rule; all of them always run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from llmgw_reconcile.engines.link import ACTIVE, chosen_ports, has_efa, is_loopback, ports_called
from llmgw_reconcile.engines.nccl import lacks_gid_index
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import Device, FabricChoice, ModelSpec
from llmgw_reconcile.model.group import Member, Network
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.rdma import RdmaKind, RdmaPort

SPOKEN_BY_NCCL = (RdmaKind.INFINIBAND, RdmaKind.ROCE)
SEE_ADAPTERS = "`llmgw agent inventory` shows each adapter with its condition"
SEE_INTERFACES = "`ip -brief address` shows each interface with its addresses"


class MemberFacts(NamedTuple):
    """What the rules judge: one member, and what its node has to talk over."""

    engine: str
    model: ModelSpec
    member: Member
    choice: FabricChoice
    inventory: Inventory
    network: Network
    for_apply: bool

    @property
    def uses_nccl(self) -> bool:
        """Whether its GPUs talk to those of the other nodes."""
        return self.model.device is not Device.CPU


Rule = Callable[[MemberFacts], Iterator[Diagnostic]]


def check_member(
    placement: Placement, choice: FabricChoice, inventory: Inventory, network: Network, *, for_apply: bool
) -> tuple[Diagnostic, ...]:
    """What speaks against starting a member here; none for an engine on one node. An ERROR blocks that engine alone.

    `choice` is the file's `node.fabric`. A name that does not resolve is an error only `for_apply`.
    """
    if (member := placement.member) is None:
        return ()
    spec = placement.spec
    facts = MemberFacts(spec.engine, spec.model, member, choice, inventory, network, for_apply)
    return tuple(finding for rule in RULES for finding in rule(facts))


def node_has_a_fabric(facts: MemberFacts) -> Iterator[Diagnostic]:
    """An island is complete by itself; what spans several nodes cannot live on it, unless sockets are good enough."""
    choice, fabric = facts.choice, facts.inventory.fabric
    if not facts.uses_nccl or not choice.use_rdma or choice.hcas or has_efa(choice, facts.inventory):
        return
    if chosen_ports(choice, facts.inventory):
        return
    unfit = "; ".join(f"{port.name}: {', '.join(port.problems)}" for port in facts.inventory.hcas if port.problems)
    reason = f"{fabric.reason} ({unfit})" if unfit else fabric.reason
    message = f"island: no usable RDMA fabric for an engine over {facts.member.size} nodes: {reason}"
    usable = any(port.usable for port in facts.inventory.hcas)
    named = "name its adapters with `node: {fabric: {hcas: [DEVICE:PORT]}}`, or " if usable else ""
    yield _error(facts, "no-fabric", message, f"{named}accept TCP sockets with `node: {{fabric: none}}`")


def named_adapters_are_fit(facts: MemberFacts) -> Iterator[Diagnostic]:
    """The adapters that the file names exist, are active, and speak one language."""
    for name in facts.choice.hcas:
        found = ports_called(name, facts.inventory.hcas)
        if not found:
            known = ", ".join(port.name for port in facts.inventory.hcas) or "no adapter at all"
            message = f"node.fabric.hcas names {name}, and this node has {known}"
            yield _error(facts, "no-such-adapter", message, SEE_ADAPTERS)
        for port in found:
            yield from _port_is_fit(facts, port)
    kinds = {port.kind: port.name for port in reversed(chosen_ports(facts.choice, facts.inventory))}
    if facts.choice.hcas and len(kinds) > 1:
        words = ", ".join(f"{name} is {kind}" for kind, name in sorted(kinds.items()))
        message = f"node.fabric.hcas mixes what cannot reach each other: {words}"
        yield _error(facts, "mixed-fabric", message, "name adapters of one kind")


def _port_is_fit(facts: MemberFacts, port: RdmaPort) -> Iterator[Diagnostic]:
    """NCCL passes over a port that is not active; what else discovery says of it the file may know better."""
    speaks = port.kind in SPOKEN_BY_NCCL
    if speaks and port.state == ACTIVE and not port.problems:
        return
    state = f"its state is {port.state or 'unknown'}" if speaks else "it is neither InfiniBand nor RoCE"
    message = f"node.fabric.hcas names {port.name}: {', '.join(port.problems) or state}"
    report = _warning if speaks and port.state == ACTIVE else _error
    yield report(facts, "unfit-adapter", message, SEE_ADAPTERS)


def names_resolve(facts: MemberFacts) -> Iterator[Diagnostic]:
    """Each node finds the others under the names in the file."""
    if (resolved := facts.network.resolved) is None:
        return
    report = _error if facts.for_apply else _warning
    for node in facts.model.nodes:
        addresses = resolved.get(node.address, ())
        if not addresses:
            hint = f"add it to DNS or /etc/hosts, or write `{{name: {node.name}, address: ADDRESS}}`"
            yield report(facts, "unresolved-name", f"nodes: {node.address} does not resolve on this node", hint)
        elif all(map(is_loopback, addresses)):
            message = f"nodes: {node.name} is {addresses[0]} on this node, and nobody reaches another node there"
            yield _warning(facts, "loopback-name", message, "correct /etc/hosts, or give the node an `address`")


def own_address_is_here(facts: MemberFacts) -> Iterator[Diagnostic]:
    """The others come back to an address of this node, and llmgw knows on which interface."""
    if facts.network.resolved is None or facts.network.interfaces is None or facts.choice.socket_interface:
        return
    own = facts.model.nodes[facts.member.rank]
    addresses = [one for one in facts.network.resolved.get(own.address, ()) if not is_loopback(one)]
    if addresses and facts.member.link.interface is None:
        message = f"nodes: {own.address} stands for {', '.join(addresses)}, and no interface of this node has that"
        yield _warning(facts, "foreign-address", message, "name the interface: `node: {fabric: {socket_interface: …}}`")


def socket_interface_is_there(facts: MemberFacts) -> Iterator[Diagnostic]:
    """NCCL ends where an interface that it was told does not exist, is down or has no address."""
    name = facts.choice.socket_interface
    if name is None or facts.network.interfaces is None:
        return
    field = f"node.fabric.socket_interface: {name}"
    interface = next((one for one in facts.network.interfaces if one.name == name), None)
    if interface is None:
        known = ", ".join(one.name for one in facts.network.interfaces)
        yield _error(facts, "no-such-interface", f"{field}: this node has {known}", SEE_INTERFACES)
    elif not interface.is_running:
        yield _error(facts, "unfit-interface", f"{field}: it is down", SEE_INTERFACES)
    elif not interface.addresses:
        yield _error(facts, "unfit-interface", f"{field}: it has no IP address", SEE_INTERFACES)


def sockets_are_meant(facts: MemberFacts) -> Iterator[Diagnostic]:
    """Who gave up RDMA, or leaves it to a plugin, is told what that means."""
    if not facts.uses_nccl:
        return
    if not facts.choice.use_rdma:
        message = "node.fabric: none: its nodes talk over TCP sockets, many times slower than over RDMA"
        yield _warning(facts, "sockets-only", message)
    elif facts.member.link.kind is RdmaKind.EFA and "NCCL_NET" not in facts.model.env:
        message = "EFA is left to the plugin aws-ofi-nccl; where that fails to load, NCCL takes TCP without a word"
        yield _warning(facts, "efa-by-plugin", message, "`env: {NCCL_NET: AWS Libfabric}` makes that an error")


def nvshmem_knows_its_gid(facts: MemberFacts) -> Iterator[Diagnostic]:
    """On RoCE the default GID of NVSHMEM is one that no router carries, and one index must do for all adapters."""
    if lacks_gid_index(facts.member.link, facts.model):
        message = "DeepEP runs on NVSHMEM, which must be told one GID index, and its RoCE ports agree on none"
        yield _warning(facts, "no-gid-index", message, "`env: {NVSHMEM_IB_GID_INDEX: …}`; `show_gids` lists them")


RULES: tuple[Rule, ...] = (
    node_has_a_fabric,
    named_adapters_are_fit,
    names_resolve,
    own_address_is_here,
    socket_interface_is_there,
    sockets_are_meant,
    nvshmem_knows_its_gid,
)


def _error(facts: MemberFacts, code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, facts.engine, message, hint)


def _warning(facts: MemberFacts, code: str, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic(Severity.WARNING, code, facts.engine, message, hint)
