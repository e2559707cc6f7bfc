import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.fabric import Evidence, choose_fabric
from llmgw_reconcile.discovery.networks import Services
from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort

IB, ROCE = RdmaKind.INFINIBAND, RdmaKind.ROCE
BY_HAND = "name the ports in `node.fabric.hcas`"


def port(device, kind=IB, rate=400.0, *, prefix="fe80:0000:0000:0000", sm_lid=9, usable=True, **fields):
    subnet = {"subnet_prefix": prefix, "sm_lid": sm_lid} if kind is IB else {"sm_lid": 0}
    return RdmaPort(device, 1, kind, rate_gbps=rate, usable=usable, **subnet, **fields)


def compute(count, **fields):
    return [port(f"c{n}", lid=10 + n, **fields) for n in range(count)]


def names(ports):
    return tuple(p.name for p in ports)


@pytest.mark.parametrize(
    ("ports", "fabric"),
    [
        pytest.param([], Fabric(None, (), "no RDMA adapters"), id="no-adapters"),
        pytest.param([port("a", usable=False)], Fabric(None, (), "no RDMA port is usable"), id="all-down"),
        pytest.param(
            [port("a", lid=1), port("b", ROCE, 800.0), port("c", lid=2)],
            Fabric(
                IB,
                ("a:1", "c:1"),
                "2 usable InfiniBand ports of 400 Gb/s; left out: b:1 (RoCE, never mixed with InfiniBand)",
            ),
            id="infiniband-is-never-mixed-with-roce",
        ),
        pytest.param(
            [port("bond_0", ROCE, 200.0), port("bond_1", ROCE, 200.0)],
            Fabric(ROCE, ("bond_0:1", "bond_1:1"), "2 usable RoCE ports of 200 Gb/s"),
            id="bonds-can-be-the-fabric",
        ),
        pytest.param(
            [port("a", ROCE, 100.0), port("b", ROCE, 100.0), port("c", ROCE, 400.0)],
            Fabric(
                ROCE,
                ("c:1",),
                "1 usable RoCE port of 400 Gb/s; left out: a:1 (of 100 Gb/s), b:1 (of 100 Gb/s)",
            ),
            id="the-highest-rate-wins",
        ),
        pytest.param(
            [port("a", lid=1), port("b", lid=2), port("c", lid=3, usable=False), port("s", lid=1, sm_lid=5)],
            Fabric(IB, ("a:1", "b:1"), "2 usable InfiniBand ports of 400 Gb/s; left out: s:1 (in another subnet)"),
            id="another-subnet-manager-is-another-fabric",
        ),
        pytest.param(
            [port("a", lid=1, pkeys=("0xffff",)), port("b", lid=2, pkeys=("0x7fff",)), port("s", pkeys=("0x8001",))],
            Fabric(IB, ("a:1", "b:1"), "2 usable InfiniBand ports of 400 Gb/s; left out: s:1 (in another subnet)"),
            id="another-partition-is-another-fabric",
        ),
        pytest.param(
            [port("a", lid=1), port("b", lid=2, prefix="fec0:0000:0000:0001")],
            Fabric(
                None,
                (),
                f"undecided: a:1 and b:1 are equal in rate and number, and in different subnets; {BY_HAND}",
                (("a:1",), ("b:1",)),
            ),
            id="two-equal-subnets-are-undecided",
        ),
        pytest.param(
            [port("a", lid=1), port("b", lid=2), port("c", lid=1)],
            Fabric(
                None,
                (),
                f"undecided: a:1 and c:1 have the same LID 1, so they are in two fabrics; {BY_HAND}",
                (("a:1",), ("c:1",)),
            ),
            id="one-lid-twice-proves-two-fabrics",
        ),
        pytest.param(
            [port("a", rate=None, sm_lid=None, prefix=None)],
            Fabric(IB, ("a:1",), "1 usable InfiniBand port of unknown rate"),
            id="unknown-facts-do-not-disqualify",
        ),
        pytest.param(
            [port("rxe0", ROCE, 2.5, is_software=True)],
            Fabric(None, (), f"no RDMA port is usable; left out: rxe0:1 (software RoCE: {BY_HAND} to use it)"),
            id="software-roce-is-no-fabric-by-itself",
        ),
        pytest.param(
            [port("rxe0", ROCE, 100.0, is_software=True), port("a", ROCE, 100.0)],
            Fabric(
                ROCE,
                ("a:1",),
                f"1 usable RoCE port of 100 Gb/s; left out: rxe0:1 (software RoCE: {BY_HAND} to use it)",
            ),
            id="nor-beside-hardware",
        ),
        pytest.param(
            [port("a", ROCE), port("v", ROCE, physical_function="a"), port("w", ROCE, physical_function="0000:9:00.0")],
            Fabric(ROCE, ("a:1", "w:1"), "2 usable RoCE ports of 400 Gb/s; left out: v:1 (part of a)"),
            id="a-virtual-function-counts-where-its-physical-one-is-not-visible",
        ),
    ],
)
def test_one_fabric_is_chosen_or_the_reason_why_not(ports, fabric):
    marked, found = choose_fabric(ports)
    assert found == fabric
    assert [p.name for p in marked if p.in_fabric] == list(fabric.ports)
    assert [p._replace(in_fabric=False) for p in marked] == ports


NEAR, FAR = {"near_gpus": (0,)}, {"near_gpus": ()}


class TestEvidence:
    """Compute or storage adapter, all equal in kind and subnet."""

    def test_those_that_share_a_switch_with_a_gpu_serve_engines(self):
        ports = [*compute(8, **NEAR), port("s0", lid=1, **FAR), port("s1", lid=2, **FAR)]
        fabric = choose_fabric(ports, Evidence(gpu_count=8))[1]
        assert fabric.ports == names(compute(8))
        assert fabric.reason == (
            "8 usable InfiniBand ports of 400 Gb/s; left out: s0:1 (not near a GPU), s1:1 (not near a GPU)"
        )

    def test_the_way_to_the_gpus_weighs_more_than_kind_and_rate(self):
        ports = [port("a", ROCE, 200.0, **NEAR), port("s", IB, 400.0, lid=1, **FAR)]
        assert choose_fabric(ports)[1].ports == ("a:1",)

    def test_the_way_decides_where_a_lid_proves_two_fabrics(self):
        ports = [*compute(8, **NEAR), port("s0", lid=10, **FAR), port("s1", lid=11, **FAR)]
        assert choose_fabric(ports, Evidence(gpu_count=8))[1].ports == names(compute(8))

    @pytest.mark.parametrize("ways", [{}, FAR], ids=["not-known", "near-none"])
    def test_without_it_more_equal_ports_than_gpus_are_undecided(self, ways):
        ports = [*compute(8, **ways), port("s0", lid=1, **ways), port("s1", lid=2, **ways)]
        fabric = choose_fabric(ports, Evidence(gpu_count=8))[1]
        assert fabric.candidates == (names(ports),)
        assert "are 10 equal ports for 8 GPUs, so some serve something else" in fabric.reason

    @pytest.mark.parametrize(("count", "gpus"), [(8, 8), (4, 8), (6, 8), (16, 8), (2, 1), (10, None), (10, 0)])
    def test_numbers_that_fit_are_no_riddle(self, count, gpus):
        assert len(choose_fabric(compute(count), Evidence(gpu_count=gpus))[1].ports) == count

    def test_a_way_that_is_known_of_some_alone_decides_nothing(self):
        ports = [port("a", lid=1, **NEAR), port("b", lid=2)]
        assert choose_fabric(ports)[1].ports == ("a:1", "b:1")

    @pytest.mark.parametrize(
        ("services", "why"),
        [
            (Services(management=frozenset({"bond0"})), "carries the default route"),
            (Services(storage=frozenset({"bond0.7"})), "reaches a file server"),
        ],
        ids=["management", "storage"],
    )
    def test_routes_and_mounts_tell_what_else_a_port_serves(self, services, why):
        ports = [port("a", ROCE, netdev="ens1"), port("b", ROCE, netdev="ens2", bond="bond0")]
        fabric = choose_fabric(ports, Evidence(services=services))[1]
        assert fabric.ports == ("a:1",)
        assert fabric.reason.endswith(f"left out: b:1 ({why})")

    def test_a_node_with_one_network_for_all_uses_it(self):
        services = Services(management=frozenset({"bond0"}))
        assert choose_fabric([port("a", ROCE, netdev="bond0")], Evidence(services=services))[1].ports == ("a:1",)

    def test_a_port_near_a_gpu_may_carry_the_default_route(self):
        services = Services(management=frozenset({"e0"}))
        ports = [port("a", ROCE, netdev="e0", **NEAR), port("b", ROCE, netdev="e1", **NEAR)]
        assert choose_fabric(ports, Evidence(services=services))[1].ports == ("a:1", "b:1")


PORTS = st.builds(
    port,
    st.sampled_from([f"mlx5_{n}" for n in range(12)]),
    st.sampled_from(list(RdmaKind)),
    st.sampled_from([None, 100.0, 400.0]),
    prefix=st.sampled_from(["fe80:0000:0000:0000", None]),
    sm_lid=st.sampled_from([1, 2, None]),
    usable=st.booleans(),
    lid=st.sampled_from([1, 2, 3, None]),
    near_gpus=st.sampled_from([None, (), (0,)]),
    is_software=st.booleans(),
)


@given(st.lists(PORTS, max_size=12, unique_by=lambda p: p.device), st.sampled_from([None, 0, 1, 8]))
def test_a_fabric_is_of_usable_ports_of_one_kind_rate_and_subnet(ports, gpus):
    marked, fabric = choose_fabric(ports, Evidence(gpu_count=gpus))
    chosen = [p for p in marked if p.in_fabric]
    assert names(chosen) == fabric.ports
    assert all(p.usable and p.kind is fabric.kind and not p.is_software for p in chosen)
    assert len({(p.rate_gbps or 0, p.subnet_prefix, p.sm_lid) for p in chosen}) <= 1
    assert (fabric.kind is None) == (not chosen)
    assert fabric.reason
