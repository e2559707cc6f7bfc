import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.nvidia_cards import Card
from llmgw_reconcile.discovery.topology import Matrix, cliques, find_seats, find_topology
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.gpu import AdapterLink, GpuLink, PcieLink

PIX, PXB, PHB, NODE, SYS = PcieLink.PIX, PcieLink.PXB, PcieLink.PHB, PcieLink.NODE, PcieLink.SYS


def cards(count):
    return [Card(index=n, uuid=f"GPU-{n}", pci_bus_id=f"00000000:{0x10 + n:02X}:00.0") for n in range(count)]


def pairs(links):
    """Both orders of each pair."""
    return links | {(b, a): value for (a, b), value in links.items()}


@pytest.fixture
def sysfs(tmp_path):
    """Two cards and an adapter below one switch, a third card at the other socket."""

    def device(name, place, numa):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "numa_node").write_text(f"{numa}\n")
        link = tmp_path / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(tmp_path / place)

    switch = "devices/pci0000:0f/0000:0f:01.0/0000:0e:00.0"
    device("bus/pci/devices/0000:10:00.0", f"{switch}/0000:0d:00.0/0000:10:00.0", 0)
    device("bus/pci/devices/0000:11:00.0", f"{switch}/0000:0d:01.0/0000:11:00.0", 0)
    device("class/infiniband/mlx5_0/device", f"{switch}/0000:0d:02.0/0000:1f:00.0", 0)
    device("bus/pci/devices/0000:12:00.0", "devices/pci0000:80/0000:80:01.0/0000:12:00.0", 1)
    return Tree(str(tmp_path))


def test_sysfs_alone_tells_the_pcie_way_and_nothing_of_nvlink(sysfs):
    topology = find_topology(cards(3), ["mlx5_0"], None, sysfs)
    assert topology.numa == {0: 0, 1: 0, 2: 1}
    assert topology.links[0] == (GpuLink(1, None, PIX), GpuLink(2, None, SYS))
    assert topology.nvlink_peers(0) is None
    assert topology.nvlink_domains is None
    assert topology.adapters == {n: (AdapterLink("mlx5_0", way),) for n, way in enumerate((PIX, PIX, SYS))}
    assert topology.near_gpus == {"mlx5_0": (0, 1)}


def test_the_matrix_tells_nvlink_and_sysfs_the_way_behind_it(sysfs):
    nvlinks = pairs({(0, 1): 4, (0, 2): 0, (1, 2): 0})
    topology = find_topology(cards(3), [], Matrix(nvlinks, pairs({(0, 2): SYS, (1, 2): SYS}), {}, {}), sysfs)
    assert topology.links[0] == (GpuLink(1, 4, PIX), GpuLink(2, 0, SYS))
    assert [topology.nvlink_peers(n) for n in range(3)] == [(1,), (0,), ()]
    assert topology.nvlink_domains == ((0, 1),)


def test_where_both_tell_a_way_the_matrix_is_believed(sysfs):
    matrix = Matrix(pairs({(0, 1): 0}), pairs({(0, 1): PHB}), {(0, "mlx5_0"): NODE}, {0: 7})
    topology = find_topology(cards(2), ["mlx5_0"], matrix, sysfs)
    assert topology.links[1] == (GpuLink(0, 0, PHB),)
    assert topology.adapters[0] == (AdapterLink("mlx5_0", NODE),)
    assert topology.numa[0] == 0  # the kernel's own word


def test_what_nobody_tells_is_not_known(tmp_path):
    topology = find_topology(cards(2), ["mlx5_0"], None, Tree(str(tmp_path)))
    assert (topology.numa, topology.links) == ({0: None, 1: None}, {0: None, 1: None})
    assert (topology.adapters, topology.near_gpus) == ({0: None, 1: None}, {"mlx5_0": None})


def test_a_pair_that_the_matrix_lacks_leaves_peers_and_domains_open(tmp_path):
    topology = find_topology(cards(3), [], Matrix(pairs({(0, 1): 2, (0, 2): 2}), {}, {}, {0: 3}), Tree(str(tmp_path)))
    assert topology.links[1] == (GpuLink(0, 2, None), GpuLink(2, None, None))
    assert [topology.nvlink_peers(n) for n in range(3)] == [(1, 2), None, None]
    assert topology.nvlink_domains is None
    assert topology.numa == {0: 3, 1: None, 2: None}


def test_the_nearest_adapters_are_those_of_the_shortest_way(tmp_path):
    ways = {(0, "mlx5_0"): PXB, (0, "mlx5_1"): PIX, (0, "mlx5_2"): PIX, (0, "mlx5_3"): SYS}
    matrix = Matrix({}, {}, ways, {})
    topology = find_topology(cards(1), [f"mlx5_{n}" for n in range(4)], matrix, Tree(str(tmp_path)))
    assert topology.adapters == {0: (AdapterLink("mlx5_1", PIX), AdapterLink("mlx5_2", PIX))}
    assert topology.near_gpus == {"mlx5_0": (0,), "mlx5_1": (0,), "mlx5_2": (0,), "mlx5_3": ()}


def test_an_adapter_is_near_no_card_only_where_each_way_is_known(tmp_path):
    matrix = Matrix({}, {}, {(0, "mlx5_0"): SYS}, {})
    assert find_topology(cards(2), ["mlx5_0"], matrix, Tree(str(tmp_path))).near_gpus == {"mlx5_0": None}


def test_a_node_without_adapters_or_with_a_single_card_is_no_riddle(tmp_path):
    topology = find_topology(cards(1), [], Matrix({}, {}, {}, {}), Tree(str(tmp_path)))
    assert (topology.links, topology.adapters, topology.nvlink_domains) == ({0: ()}, {0: ()}, ())
    assert find_topology([], ["mlx5_0"], None, Tree(str(tmp_path))).near_gpus == {"mlx5_0": None}


def test_seats_alone_tell_numa_nodes_and_leave_the_rest_open(sysfs):
    seats = find_seats(cards(3), sysfs)
    assert (seats.numa, seats.nvlink_peers(0), seats.nvlink_domains) == ({0: 0, 1: 0, 2: 1}, None, None)


def complete(*members):
    return {one: set(members) - {one} for one in members}


@pytest.mark.parametrize(
    ("peers", "domains"),
    [
        pytest.param(complete(*range(8)), ((0, 1, 2, 3, 4, 5, 6, 7),), id="hgx"),
        pytest.param(complete(0, 1) | complete(2, 3), ((0, 1), (2, 3)), id="bridged-pairs"),
        pytest.param(complete(0, 1) | {2: set()}, ((0, 1),), id="a-pair-and-a-single-card"),
        pytest.param({n: set() for n in range(4)}, (), id="no-nvlink"),
        pytest.param(
            {n: {m for m in range(8) if m // 4 == n // 4 or abs(m - n) == 4} - {n} for n in range(8)},
            ((0, 1, 2, 3), (4, 5, 6, 7)),
            id="hybrid-cube-mesh",
        ),
        pytest.param({0: {1}, 1: {0, 2}, 2: {1, 3}, 3: {2}}, ((0, 1), (2, 3)), id="a-chain-is-no-domain"),
        pytest.param({0: {3}, 3: {0, 1, 2}, 1: {3, 2}, 2: {1, 3}}, ((1, 2, 3),), id="the-largest-goes-first"),
    ],
)
def test_domains_are_cliques(peers, domains):
    assert cliques(peers) == domains


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_in_a_domain_each_is_a_peer_of_each_and_nobody_is_in_two(edges):
    peers = {n: {b for a, b in edges | {(b, a) for a, b in edges} if a == n and b != n} for n in range(10)}
    domains = cliques(peers)
    assert all(other in peers[one] for domain in domains for one in domain for other in domain if one != other)
    members = [one for domain in domains for one in domain]
    assert len(members) == len(set(members))
    assert all(len(domain) > 1 for domain in domains)
    loners = set(range(10)) - set(members)
    assert not any(other in peers[one] for one in loners for other in loners)


def test_of_more_cards_than_any_board_holds_nothing_is_worked_out(tmp_path):
    assert find_topology(cards(65), [], None, Tree(str(tmp_path))).links == {}
