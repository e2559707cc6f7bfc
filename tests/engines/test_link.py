"""Which adapters and which interface a member of a group talks over."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.link import link_of
from llmgw_reconcile.model.desired import FabricChoice, GroupNode
from llmgw_reconcile.model.group import Interface, Link, Network
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.rdma import Fabric, Gid, RdmaKind, RdmaPort

IB, ROCE, EFA = RdmaKind.INFINIBAND, RdmaKind.ROCE, RdmaKind.EFA
OWN = GroupNode("gpu-07", "gpu-07")
HCAS = (
    RdmaPort("mlx5_0", 1, IB, state="ACTIVE", usable=True),
    RdmaPort("mlx5_1", 1, IB, state="ACTIVE", usable=True),
    RdmaPort("mlx5_2", 1, ROCE, state="ACTIVE", usable=True),
    RdmaPort("mlx5_2", 2, ROCE, state="DOWN"),
)
FOUND = Fabric(IB, ("mlx5_0:1", "mlx5_1:1"), "2 usable InfiniBand ports")
INTERFACES = (
    Interface("lo", ("127.0.0.1", "::1")),
    Interface("eth0", ("192.0.2.7",)),
    Interface("bond0", ("10.1.0.7", "10.2.0.7", "fd00::7")),
    Interface("eth9"),
)


AUTO = FabricChoice()


def link(choice: FabricChoice = AUTO, hcas: tuple[RdmaPort, ...] = HCAS, fabric: Fabric = FOUND) -> Link:
    return link_of(OWN, choice, Inventory("gpu-07", "none", hcas=hcas, fabric=fabric), Network())


def way(*addresses: str, **choice: str) -> tuple[str | None, str | None]:
    network = Network(INTERFACES, {"gpu-07": addresses})
    found = link_of(OWN, FabricChoice(**choice), Inventory("gpu-07", "none"), network)
    return found.interface, found.address


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        pytest.param(FabricChoice(), Link(IB, ("mlx5_0:1", "mlx5_1:1")), id="what-discovery-chose"),
        pytest.param(FabricChoice(use_rdma=False), Link(None), id="none"),
        pytest.param(FabricChoice(hcas=("mlx5_1:1",)), Link(IB, ("mlx5_1:1",)), id="what-the-file-names"),
        pytest.param(FabricChoice(hcas=("mlx5_2",)), Link(ROCE, ("mlx5_2:1",)), id="the-active-ports-of-an-adapter"),
        pytest.param(FabricChoice(hcas=("mlx5_1", "mlx5_1:1")), Link(IB, ("mlx5_1:1",)), id="named-twice"),
        pytest.param(FabricChoice(hcas=("mlx5_0", "mlx5_2")), Link(None), id="two-kinds-are-no-fabric"),
        pytest.param(FabricChoice(hcas=("mlx5_7:1",)), Link(None), id="what-is-not-there"),
        pytest.param(
            FabricChoice(rails="isolated"), Link(IB, ("mlx5_0:1", "mlx5_1:1"), isolated_rails=True), id="isolated-rails"
        ),
        pytest.param(FabricChoice(rails="routed"), Link(IB, ("mlx5_0:1", "mlx5_1:1")), id="routed-rails"),
    ],
)
def test_a_member_talks_over_these_adapters(choice: FabricChoice, expected: Link) -> None:
    assert link(choice) == expected


ISLAND = Fabric(None, (), "no RDMA port is usable")
EFAS = (RdmaPort("rdmap0s6", 1, EFA, state="ACTIVE"), RdmaPort("rdmap1s6", 1, EFA, state="ACTIVE"))


def test_an_island_has_sockets_only() -> None:
    assert link(hcas=(), fabric=ISLAND) == Link(None)


def test_efa_is_a_fabric_whose_adapters_are_not_listed() -> None:
    assert link(hcas=EFAS, fabric=ISLAND) == Link(EFA)
    assert link(FabricChoice(use_rdma=False), EFAS, ISLAND) == Link(None)


def test_efa_that_is_down_is_none() -> None:
    assert link(hcas=(EFAS[0]._replace(state="DOWN"),), fabric=ISLAND) == Link(None)


@pytest.mark.parametrize(
    ("addresses", "choice", "expected"),
    [
        pytest.param(("10.2.0.7",), {}, ("bond0", "10.2.0.7"), id="where-the-address-of-its-name-is"),
        pytest.param(("203.0.113.9", "192.0.2.7"), {}, ("eth0", "192.0.2.7"), id="the-first-that-is-here"),
        pytest.param(("fd00::7",), {}, ("bond0", "fd00::7"), id="ipv6"),
        pytest.param(("127.0.1.1",), {}, (None, None), id="a-loopback-address-is-nobodys"),
        pytest.param(("127.0.0.1", "192.0.2.7"), {}, ("eth0", "192.0.2.7"), id="a-loopback-address-is-passed-over"),
        pytest.param(("203.0.113.9",), {}, (None, None), id="an-address-of-somewhere-else"),
        pytest.param((), {}, (None, None), id="a-name-that-does-not-resolve"),
        pytest.param((), {"socket_interface": "bond0"}, ("bond0", "10.1.0.7"), id="the-file-decides"),
        pytest.param(
            ("10.2.0.7",), {"socket_interface": "bond0"}, ("bond0", "10.2.0.7"), id="the-address-of-its-name-goes-first"
        ),
        pytest.param(
            ("192.0.2.7",), {"socket_interface": "bond0"}, ("bond0", "10.1.0.7"), id="the-name-is-of-another-interface"
        ),
        pytest.param((), {"socket_interface": "eth9"}, ("eth9", None), id="an-interface-without-an-address"),
        pytest.param((), {"socket_interface": "eth5"}, ("eth5", None), id="an-interface-that-is-not-there"),
    ],
)
def test_the_nodes_find_each_other_over_this_interface(
    addresses: tuple[str, ...], choice: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    assert way(*addresses, **choice) == expected


def test_a_network_that_was_not_looked_at_gives_no_address() -> None:
    found = link_of(OWN, FabricChoice(socket_interface="bond0"), Inventory("gpu-07", "none"), Network())
    assert (found.interface, found.address) == ("bond0", None)


V1, V2 = "IB/RoCE v1", "RoCE v2"
LOCAL, IPV4 = "fe80:0000:0000:0000:0a00:27ff:fe12:3456", "0000:0000:0000:0000:0000:ffff:0a01:0007"
IPV6 = "fd00:0000:0000:0000:0000:0000:0000:0007"


def roce(number: int, *gids: Gid) -> RdmaPort:
    return RdmaPort(f"mlx5_{number}", 1, ROCE, state="ACTIVE", usable=True, gids=gids)


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        pytest.param([roce(0, Gid(1, LOCAL, V2), Gid(2, IPV4, V1), Gid(3, IPV4, V2))], 3, id="v2-and-ipv4"),
        pytest.param(
            [roce(0, Gid(3, IPV4, V2)), roce(1, Gid(3, IPV4, V2), Gid(5, IPV4, V2))], 3, id="the-first-of-each"
        ),
        pytest.param([roce(0, Gid(3, IPV4, V2)), roce(1, Gid(5, IPV4, V2))], None, id="at-two-places"),
        pytest.param([roce(0, Gid(3, IPV6, V2))], None, id="ipv6-is-not-preferred"),
        pytest.param([roce(0, Gid(3, IPV4, None))], None, id="a-kind-that-is-not-known"),
    ],
)
def test_one_gid_index_must_do_for_all_ports(ports: list[RdmaPort], expected: int | None) -> None:
    fabric = Fabric(ROCE, tuple(f"{one.device}:1" for one in ports), "")
    assert link(hcas=tuple(ports), fabric=fabric).gid_index == expected


def test_infiniband_needs_no_gid_index() -> None:
    assert link(hcas=(HCAS[0]._replace(gids=(Gid(0, LOCAL),)),)).gid_index is None
