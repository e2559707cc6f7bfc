"""Where the inventories of the nodes of one group disagree."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import Device, FabricChoice, GroupNode
from llmgw_reconcile.model.group import Member
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort
from llmgw_reconcile.validate.group_rules import check_peers
from tests.fakes.placed import A100, H100, a_placement, gpu

IB, ROCE, EFA = RdmaKind.INFINIBAND, RdmaKind.ROCE, RdmaKind.EFA
AUTO = FabricChoice()
ERROR, NOTE = Severity.ERROR, Severity.NOTE


def ports(first_lid: int, count: int = 2, **fields: Any) -> tuple[RdmaPort, ...]:
    known = {"kind": IB, "state": "ACTIVE", "rate_gbps": 400.0, "subnet_prefix": "fe80", "usable": True, **fields}
    return tuple(RdmaPort(f"mlx5_{index}", 1, lid=first_lid + index, **known) for index in range(count))


def inventory(node: str, first: int, hcas: tuple[RdmaPort, ...] | None = None, **fields: Any) -> Inventory:
    """A node whose GPUs and LIDs are counted from `first`, with two adapters and two H100s."""
    hcas = ports(first) if hcas is None else hcas
    known = {
        "gpus": tuple(gpu(index, H100, uuid=f"GPU-{first + index}") for index in range(2)),
        "driver_version": "570.86.15",
        "fabric": Fabric(hcas[0].kind if hcas else None, tuple(port.name for port in hcas), ""),
        **fields,
    }
    return Inventory(node, "nvidia-smi", hcas=hcas, **known)


HERE = inventory("gpu-01", 10)


def member(*names: str, **fields: Any) -> Placement:
    nodes = tuple(GroupNode(name, name) for name in names or ("gpu-01", "gpu-02"))
    return a_placement(gpu(0), nodes=nodes, **fields)._replace(member=Member(0, len(nodes), "gpu-01", 20233))


def found(*peers: Inventory, choice: FabricChoice = AUTO, here: Inventory = HERE, **fields: Any) -> list[Diagnostic]:
    return list(check_peers(member(**fields), here, choice, peers))


def messages(*peers: Inventory, **given: Any) -> list[str]:
    diagnostics = found(*peers, **given)
    assert {(one.severity, one.code, one.where) for one in diagnostics} <= {(ERROR, "group-disagreement", "chat@0")}
    return [one.message for one in diagnostics]


def test_two_nodes_of_one_kind_agree() -> None:
    assert found(inventory("gpu-02.example.org", 20)) == []


def test_nothing_is_compared_without_an_inventory() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        pytest.param(
            inventory("gpu-02", 20, gpus=(gpu(0, A100), gpu(1, A100))),
            ["GPUs: 2 x h100-80g on gpu-01, 2 x a100-80g on gpu-02"],
            id="another-class-of-gpus",
        ),
        pytest.param(
            inventory("gpu-02", 20, gpus=(gpu(5, H100),)),
            ["GPUs: 2 x h100-80g on gpu-01, 1 x h100-80g on gpu-02"],
            id="fewer-gpus",
        ),
        pytest.param(
            inventory("gpu-02", 20, gpus=(gpu(5, H100), gpu(6, H100), gpu(7, A100))),
            [],
            id="cards-that-nobody-asks-for",
        ),
        pytest.param(
            inventory("gpu-02", 20, driver_version="535.161.08"),
            ["driver: 570 on gpu-01, 535 on gpu-02"],
            id="another-branch-of-the-driver",
        ),
        pytest.param(inventory("gpu-02", 20, driver_version="570.124.06"), [], id="one-branch-of-the-driver"),
        pytest.param(
            inventory("gpu-02", 20, ports(20, 1)), ["RDMA ports: 2 on gpu-01, 1 on gpu-02"], id="fewer-adapters"
        ),
        pytest.param(
            inventory("gpu-02", 20, ports(20, rate_gbps=200.0)),
            ["rate: 400 Gb/s on gpu-01, 200 Gb/s on gpu-02"],
            id="slower-adapters",
        ),
        pytest.param(
            inventory("gpu-02", 20, ports(20, kind=ROCE)),
            ["fabric: infiniband on gpu-01, roce on gpu-02"],
            id="another-kind-of-fabric",
        ),
        pytest.param(
            inventory("gpu-02", 20, ()), ["fabric: infiniband on gpu-01, none on gpu-02"], id="an-island-among-them"
        ),
        pytest.param(
            inventory("gpu-02", 20, ports(20, subnet_prefix="fec0")),
            ["subnet: fe80 on gpu-01, fec0 on gpu-02"],
            id="another-subnet",
        ),
        pytest.param(
            inventory("gpu-02", 20, ports(11)),
            ["mlx5_1:1 of gpu-01 and mlx5_0:1 of gpu-02 have one LID, 11, so they are in two fabrics"],
            id="a-lid-that-is-given-twice",
        ),
        pytest.param(
            inventory("gpu-02", 20, gpus=HERE.gpus),
            ["gpu-01 and gpu-02 are one host: both have GPU-10"],
            id="one-host-under-two-names",
        ),
    ],
)
def test_a_disagreement_is_refused_by_name(peer: Inventory, expected: list[str]) -> None:
    assert messages(peer) == expected


def test_ports_of_different_partitions_cannot_talk() -> None:
    here = inventory("gpu-01", 10, ports(10, pkeys=("0xffff", "0x8001")))
    assert messages(inventory("gpu-02", 20, ports(20, pkeys=("0x0001",))), here=here) == []
    assert messages(inventory("gpu-02", 20, ports(20, pkeys=("0x8002",))), here=here) == [
        "the RDMA ports of gpu-01, gpu-02 share no partition key"
    ]


def test_every_pair_of_the_group_is_looked_at() -> None:
    peers = inventory("gpu-02", 20), inventory("gpu-03", 30, ports(21))
    assert [one.message for one in check_peers(member("gpu-01", "gpu-02", "gpu-03"), HERE, AUTO, peers)] == [
        "mlx5_1:1 of gpu-02 and mlx5_0:1 of gpu-03 have one LID, 21, so they are in two fabrics"
    ]


def test_two_inventories_of_one_node_are_told() -> None:
    assert messages(inventory("gpu-02", 20), inventory("gpu-02", 30)) == ["gpu-02: two inventories that differ"]


def test_the_inventory_of_this_node_itself_is_passed_over() -> None:
    assert messages(HERE, inventory("gpu-02", 20)) == []


def test_adapters_count_only_where_engines_talk_over_them() -> None:
    poorer = inventory("gpu-02", 20, ports(20, 1))
    assert messages(poorer, choice=FabricChoice(use_rdma=False)) == []
    assert messages(poorer, device=Device.CPU) == []


def test_efa_is_a_fabric_of_its_own() -> None:
    efas = tuple(RdmaPort(f"rdmap{number}s6", 1, EFA, state="ACTIVE") for number in range(2))
    island = Fabric(None, (), "no RDMA port is usable")
    here, peer = (inventory(f"gpu-0{number}", number * 10, efas, fabric=island) for number in (1, 2))
    assert messages(peer, here=here) == []
    assert messages(inventory("gpu-02", 20), here=here) == ["fabric: efa on gpu-01, infiniband on gpu-02"]


@pytest.mark.parametrize(
    ("peer", "given", "expected"),
    [
        pytest.param(
            inventory("gpu-02", 20, driver_version=None),
            {},
            "driver of gpu-02: not known, so not compared",
            id="a-fact-that-is-not-known",
        ),
        pytest.param(
            inventory("gpu-02", 20, ports(20, rate_gbps=None)),
            {},
            "rate of gpu-02: not known, so not compared",
            id="a-rate-that-is-not-known",
        ),
        pytest.param(
            inventory("gpu-02", 20, problems=(Diagnostic(ERROR, "nvidia-smi-failed", "", "it hangs"),)),
            {},
            "GPUs of gpu-02: not known, so not compared",
            id="gpus-that-could-not-be-read",
        ),
        pytest.param(
            inventory("gpu-02", 20, ports(20, 1)),
            {"choice": FabricChoice(hcas=("mlx5_0:1",))},
            "node.fabric.hcas chooses the RDMA ports of gpu-01, and those of the others are not known",
            id="adapters-that-a-person-chose",
        ),
        pytest.param(
            inventory("gpu-09", 20),
            {},
            "no inventory of gpu-02 was given to compare with",
            id="a-node-that-was-left-out",
        ),
    ],
)
def test_what_is_not_compared_is_said_and_refuses_nothing(
    peer: Inventory, given: dict[str, Any], expected: str
) -> None:
    assert [(one.severity, one.code, one.message) for one in found(peer, **given)] == [
        (NOTE, "group-not-compared", expected)
    ]
