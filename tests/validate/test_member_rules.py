"""What speaks against this node's part in an engine over several nodes."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.desired import Device, FabricChoice, GroupNode
from llmgw_reconcile.model.group import Interface, Link, Member, Network
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort
from llmgw_reconcile.validate.member_rules import check_member
from tests.fakes.placed import a_placement, gpu

IB, ROCE, EFA, OTHER = RdmaKind.INFINIBAND, RdmaKind.ROCE, RdmaKind.EFA, RdmaKind.OTHER
NODES = (GroupNode("gpu-01", "gpu-01"), GroupNode("gpu-02", "gpu-02"))
HCAS = (
    RdmaPort("mlx5_0", 1, IB, state="ACTIVE", usable=True),
    RdmaPort("mlx5_1", 1, IB, state="ACTIVE", usable=True),
    RdmaPort("mlx5_2", 1, IB, state="DOWN", problems=("its state is DOWN",)),
    RdmaPort("mlx5_3", 1, ROCE, state="ACTIVE", problems=("its network interface has no address",)),
    RdmaPort("irdma0", 1, OTHER, state="ACTIVE"),
)
FOUND = Fabric(IB, ("mlx5_0:1", "mlx5_1:1"), "2 usable InfiniBand ports")
ISLAND = Fabric(None, (), "no RDMA port is usable")
RESOLVED = {"gpu-01": ("10.0.0.1",), "gpu-02": ("10.0.0.2",)}
INTERFACES = (Interface("lo", ("127.0.0.1",)), Interface("bond0", ("10.0.0.2",)), Interface("eth1", is_running=False))
ERROR, WARNING = Severity.ERROR, Severity.WARNING

BOND0 = ("bond0", "10.0.0.2")
SOCKETS = Link(None, (), *BOND0)

Found = list[tuple[Severity, str, str]]


def found(
    choice: FabricChoice,
    *,
    hcas: tuple[RdmaPort, ...] = HCAS,
    fabric: Fabric = FOUND,
    network: Network | None = None,
    link: Link = Link(IB, ("mlx5_0:1",), *BOND0),  # noqa: B008 - a value
    for_apply: bool = False,
    **fields: Any,
) -> Found:
    placed = a_placement(gpu(0), nodes=NODES, **fields)._replace(member=Member(1, 2, "gpu-01", 20233, link))
    inventory = Inventory("gpu-02", "nvidia-smi", hcas=hcas, fabric=fabric)
    network = Network(INTERFACES, RESOLVED) if network is None else network
    diagnostics = check_member(placed, choice, inventory, network, for_apply=for_apply)
    assert {one.where for one in diagnostics} <= {"chat@0"}
    return [(one.severity, one.code, one.message) for one in diagnostics]


AUTO = FabricChoice()


def test_a_node_in_good_order_has_nothing_to_say() -> None:
    assert found(AUTO, for_apply=True) == []


def test_an_engine_on_one_node_is_not_judged_here() -> None:
    on_island = Inventory("gpu-02", "nvidia-smi", fabric=ISLAND)
    assert check_member(a_placement(gpu(0), nodes=NODES[:1]), AUTO, on_island, Network(), for_apply=True) == ()


def test_an_island_refuses_with_every_reason() -> None:
    assert found(AUTO, hcas=HCAS[2:4], fabric=ISLAND, link=SOCKETS) == [
        (
            ERROR,
            "no-fabric",
            (
                "island: no usable RDMA fabric for an engine over 2 nodes: no RDMA port is usable"
                " (mlx5_2:1: its state is DOWN; mlx5_3:1: its network interface has no address)"
            ),
        )
    ]


def hint(fabric: Fabric, hcas: tuple[RdmaPort, ...]) -> str:
    placed = a_placement(gpu(0), nodes=NODES)._replace(member=Member(1, 2, "gpu-01", 20233))
    (refusal,) = check_member(
        placed, AUTO, Inventory("gpu-02", "none", hcas=hcas, fabric=fabric), Network(), for_apply=False
    )
    return refusal.hint


def test_the_hint_names_what_a_person_can_decide() -> None:
    undecided = Fabric(None, (), "undecided: mlx5_0:1 and mlx5_1:1 are equal", (("mlx5_0:1",), ("mlx5_1:1",)))
    sockets = "accept TCP sockets with `node: {fabric: none}`"
    assert hint(ISLAND, ()) == sockets
    assert hint(undecided, HCAS) == f"name its adapters with `node: {{fabric: {{hcas: [DEVICE:PORT]}}}}`, or {sockets}"


@pytest.mark.parametrize(
    ("choice", "given", "expected"),
    [
        pytest.param(
            FabricChoice(use_rdma=False),
            {"fabric": ISLAND, "link": SOCKETS},
            [
                (
                    WARNING,
                    "sockets-only",
                    "node.fabric: none: its nodes talk over TCP sockets, many times slower than over RDMA",
                )
            ],
            id="sockets-that-were-asked-for",
        ),
        pytest.param(AUTO, {"fabric": ISLAND, "link": SOCKETS, "device": Device.CPU}, [], id="without-gpus"),
        pytest.param(
            AUTO,
            {
                "fabric": ISLAND,
                "link": Link(EFA, (), *BOND0),
                "hcas": (RdmaPort("rdmap0s6", 1, EFA, state="ACTIVE", problems=("by a plugin",)),),
                "env": {"NCCL_NET": "AWS Libfabric"},
            },
            [],
            id="efa-that-fails-loudly",
        ),
        pytest.param(
            AUTO,
            {
                "fabric": ISLAND,
                "link": Link(EFA, (), *BOND0),
                "hcas": (RdmaPort("rdmap0s6", 1, EFA, state="ACTIVE", problems=("by a plugin",)),),
            },
            [
                (
                    WARNING,
                    "efa-by-plugin",
                    "EFA is left to the plugin aws-ofi-nccl; where that fails to load, NCCL takes TCP without a word",
                )
            ],
            id="efa",
        ),
        pytest.param(FabricChoice(hcas=("mlx5_1", "mlx5_0:1")), {"fabric": ISLAND}, [], id="adapters-in-good-order"),
        pytest.param(
            FabricChoice(hcas=("mlx5_9:1",)),
            {"hcas": HCAS[:2]},
            [(ERROR, "no-such-adapter", "node.fabric.hcas names mlx5_9:1, and this node has mlx5_0:1, mlx5_1:1")],
            id="an-adapter-that-is-not-there",
        ),
        pytest.param(
            FabricChoice(hcas=("mlx5_0",)),
            {"hcas": (), "fabric": ISLAND},
            [(ERROR, "no-such-adapter", "node.fabric.hcas names mlx5_0, and this node has no adapter at all")],
            id="no-adapter-is-there",
        ),
        pytest.param(
            FabricChoice(hcas=("mlx5_0:1", "mlx5_2")),
            {},
            [(ERROR, "unfit-adapter", "node.fabric.hcas names mlx5_2:1: its state is DOWN")],
            id="an-adapter-that-is-down",
        ),
        pytest.param(
            FabricChoice(hcas=("mlx5_3:1",)),
            {},
            [(WARNING, "unfit-adapter", "node.fabric.hcas names mlx5_3:1: its network interface has no address")],
            id="what-the-file-may-know-better",
        ),
        pytest.param(
            FabricChoice(hcas=("mlx5_0:1", "mlx5_3:1", "mlx5_1:1")),
            {},
            [
                (WARNING, "unfit-adapter", "node.fabric.hcas names mlx5_3:1: its network interface has no address"),
                (
                    ERROR,
                    "mixed-fabric",
                    "node.fabric.hcas mixes what cannot reach each other: mlx5_0:1 is infiniband, mlx5_3:1 is roce",
                ),
            ],
            id="two-kinds",
        ),
        pytest.param(
            FabricChoice(hcas=("irdma0:1",)),
            {},
            [(ERROR, "unfit-adapter", "node.fabric.hcas names irdma0:1: it is neither InfiniBand nor RoCE")],
            id="what-nccl-cannot-use",
        ),
    ],
)
def test_the_fabric_that_the_file_asks_for(choice: FabricChoice, given: dict[str, Any], expected: Found) -> None:
    assert found(choice, **given) == expected


@pytest.mark.parametrize(
    ("resolved", "expected"),
    [
        pytest.param(
            {"gpu-01": (), "gpu-02": ("10.0.0.2",)},
            [("unresolved-name", "nodes: gpu-01 does not resolve on this node")],
            id="a-name-that-does-not-resolve",
        ),
        pytest.param(
            {"gpu-01": ("10.0.0.1",), "gpu-02": ("127.0.1.1",)},
            [("loopback-name", "nodes: gpu-02 is 127.0.1.1 on this node, and nobody reaches another node there")],
            id="its-own-name-is-a-loopback-address",
        ),
        pytest.param(
            {"gpu-01": ("127.0.0.1", "10.0.0.1"), "gpu-02": ("10.0.0.2",)}, [], id="a-loopback-address-among-others"
        ),
    ],
)
def test_names_that_lead_nowhere(resolved: dict[str, tuple[str, ...]], expected: list[tuple[str, str]]) -> None:
    told = found(AUTO, network=Network(INTERFACES, resolved))
    assert told == [(WARNING, code, message) for code, message in expected]


def test_a_name_that_does_not_resolve_blocks_an_apply() -> None:
    told = found(AUTO, network=Network(INTERFACES, {}), for_apply=True)
    assert [(severity, code) for severity, code, _ in told] == [(ERROR, "unresolved-name"), (ERROR, "unresolved-name")]


def test_an_address_that_no_interface_has_is_told() -> None:
    network = Network(INTERFACES, {"gpu-01": ("10.0.0.1",), "gpu-02": ("203.0.113.9",)})
    message = "nodes: gpu-02 stands for 203.0.113.9, and no interface of this node has that"
    assert found(AUTO, network=network, link=Link(IB, ("mlx5_0:1",))) == [(WARNING, "foreign-address", message)]
    assert found(FabricChoice(socket_interface="bond0"), network=network) == []


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("bond9", "no-such-interface", "node.fabric.socket_interface: bond9: this node has lo, bond0, eth1"),
        ("eth1", "unfit-interface", "node.fabric.socket_interface: eth1: it is down"),
        ("ib0", "unfit-interface", "node.fabric.socket_interface: ib0: it has no IP address"),
    ],
)
def test_an_interface_that_leads_nowhere_blocks_the_engine(name: str, code: str, message: str) -> None:
    interfaces = (*INTERFACES, Interface("ib0")) if name == "ib0" else INTERFACES
    told = found(FabricChoice(socket_interface=name), network=Network(interfaces, RESOLVED))
    assert told == [(ERROR, code, message)]


def test_what_was_not_looked_at_is_not_judged() -> None:
    assert found(FabricChoice(socket_interface="bond9"), network=Network(), for_apply=True) == []


def test_deepep_on_roce_without_a_gid_is_told() -> None:
    told = found(AUTO, link=Link(ROCE, ("mlx5_3:1",), *BOND0), args=("--all2all-backend", "deepep_low_latency"))
    assert [(severity, code) for severity, code, _ in told] == [(WARNING, "no-gid-index")]
