import pytest

from llmgw_reconcile.discovery.fabric import choose_fabric
from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort

IB, ROCE = RdmaKind.INFINIBAND, RdmaKind.ROCE


def port(device, kind=IB, rate=400.0, *, lid=None, usable=True, prefix="fe80:0000:0000:0000", sm_lid=9):
    subnet = {"subnet_prefix": prefix, "sm_lid": sm_lid} if kind is IB else {"sm_lid": 0}
    return RdmaPort(device, 1, kind, rate_gbps=rate, lid=lid, usable=usable, **subnet)


@pytest.mark.parametrize(
    ("ports", "fabric"),
    [
        pytest.param([], Fabric(None, (), "no RDMA adapters"), id="no-adapters"),
        pytest.param([port("a", usable=False)], Fabric(None, (), "no RDMA port is usable"), id="all-down"),
        pytest.param(
            [port("a", lid=1), port("b", ROCE, 800.0), port("c", lid=2)],
            Fabric(IB, ("a:1", "c:1"), "2 usable InfiniBand ports of 400 Gb/s; left out: b:1"),
            id="infiniband-is-never-mixed-with-roce",
        ),
        pytest.param(
            [port("bond_0", ROCE, 200.0), port("bond_1", ROCE, 200.0)],
            Fabric(ROCE, ("bond_0:1", "bond_1:1"), "2 usable RoCE ports of 200 Gb/s"),
            id="bonds-can-be-the-fabric",
        ),
        pytest.param(
            [port("a", ROCE, 100.0), port("b", ROCE, 100.0), port("c", ROCE, 400.0)],
            Fabric(ROCE, ("c:1",), "1 usable RoCE port of 400 Gb/s; left out: a:1, b:1"),
            id="the-highest-rate-wins",
        ),
        pytest.param(
            [port("a", lid=1), port("b", lid=2), port("c", lid=3, usable=False), port("s", lid=1, sm_lid=5)],
            Fabric(IB, ("a:1", "b:1"), "2 usable InfiniBand ports of 400 Gb/s; left out: s:1"),
            id="another-subnet-manager-is-another-fabric",
        ),
        pytest.param(
            [port("a", lid=1), port("b", lid=2, prefix="fec0:0000:0000:0001")],
            Fabric(None, (), "undecided: a:1 and b:1 are equal in rate and number, and in different subnets"),
            id="two-equal-subnets-are-undecided",
        ),
        pytest.param(
            [port("a", lid=1), port("b", lid=2), port("c", lid=1)],
            Fabric(None, (), "undecided: a:1 and c:1 have the same LID 1, so they are in two fabrics"),
            id="one-lid-twice-proves-two-fabrics",
        ),
        pytest.param(
            [port("a", rate=None, sm_lid=None, prefix=None)],
            Fabric(IB, ("a:1",), "1 usable InfiniBand port of unknown rate"),
            id="unknown-facts-do-not-disqualify",
        ),
    ],
)
def test_one_fabric_is_chosen_or_the_reason_why_not(ports, fabric):
    marked, found = choose_fabric(ports)
    assert found == fabric
    assert [f"{p.device}:{p.port}" for p in marked if p.in_fabric] == list(fabric.ports)
    assert [p._replace(in_fabric=False) for p in marked] == ports
