import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.infiniband import natural_key, read_numa_node, read_rdma_ports
from llmgw_reconcile.model.rdma import RdmaKind, RdmaPort
from tests.fakes.sysfs import FREE, ethernet, infiniband, write_class


def read(tmp_path, files):
    write_class(tmp_path, files)
    return read_rdma_ports(str(tmp_path))


def one(tmp_path, files):
    (port,) = read(tmp_path, files)
    return port


def test_a_native_infiniband_port_has_every_field(tmp_path):
    files = infiniband("mlx5_3", lid="0x1a2", sm_lid="0x7") | {
        "mlx5_3/ports/1/gids/0": "fe80:0000:0000:0001:b83f:d203:0022:1133\n",
        "mlx5_3/device/numa_node": "1\n",
        "mlx5_3/device/net/ib3/mtu": "2044\n",
    }
    assert one(tmp_path, files) == RdmaPort(
        device="mlx5_3",
        port=1,
        kind=RdmaKind.INFINIBAND,
        link_layer="InfiniBand",
        state="ACTIVE",
        phys_state="LinkUp",
        rate_gbps=400.0,
        lid=418,
        sm_lid=7,
        subnet_prefix="fe80:0000:0000:0001",
        netdev="ib3",
        numa_node=1,
        usable=True,
    )


def test_a_roce_port_has_the_interface_of_its_first_gid_in_use(tmp_path):
    files = ethernet(
        "rocep1s0f0", {5: "fe80:0000:0000:0000:b83f:d2ff:fe22:1133", 6: "0000:0000:0000:0000:0000:ffff:0a01:0203"}
    )
    files |= {"rocep1s0f0/ports/1/gid_attrs/ndevs/0": None, "rocep1s0f0/ports/1/gid_attrs/ndevs/6": "net1\n"}
    files |= {f"rocep1s0f0/ports/1/gids/{index}": FREE for index in range(5)}
    port = one(tmp_path, files)
    assert (port.kind, port.netdev, port.subnet_prefix, port.usable) == (RdmaKind.ROCE, "net1", None, True)


def test_a_node_without_the_class_directory_has_no_ports(tmp_path):
    assert read_rdma_ports(str(tmp_path)) == ()
    (tmp_path / "class/infiniband").mkdir(parents=True)
    assert read_rdma_ports(str(tmp_path)) == ()


def test_devices_and_ports_come_in_natural_order(tmp_path):
    files = {}
    for name in ("mlx5_10", "mlx5_2", "mlx5_bond_0", "mlx4_0"):
        files |= infiniband(name)
    files |= infiniband("mlx4_0", port=2)
    assert [(port.device, port.port) for port in read(tmp_path, files)] == [
        ("mlx4_0", 1),
        ("mlx4_0", 2),
        ("mlx5_2", 1),
        ("mlx5_10", 1),
        ("mlx5_bond_0", 1),
    ]


def test_names_that_differ_only_in_letter_case_are_two_devices(tmp_path):
    files = ethernet("rocep1s0f0") | ethernet("roceP1s0f0")
    assert [port.device for port in read(tmp_path, files)] == ["roceP1s0f0", "rocep1s0f0"]


def test_files_that_are_missing_or_cannot_be_read_are_unknown(tmp_path):
    port = one(tmp_path, {"mlx5_0/ports/1/rate": None, "mlx5_0/ports/1/lid": None})
    assert port == RdmaPort(
        device="mlx5_0",
        port=1,
        kind=RdmaKind.OTHER,
        problems=(
            "neither InfiniBand nor RoCE: its link layer is unknown",
            "its state is unknown",
            "its physical state is unknown",
        ),
    )


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400 Gb/sec (4X NDR)\n", 400.0),
        ("200 Gb/sec (2X NDR)", 200.0),
        ("2.5 Gb/sec (1X SDR)\n", 2.5),
        ("10 Gb/sec (4X)\n", 10.0),
        ("fast\n", None),
        ("\n", None),
    ],
)
def test_the_rate_is_the_number_whatever_the_brackets_say(tmp_path, text, rate):
    assert one(tmp_path, infiniband("mlx5_0") | {"mlx5_0/ports/1/rate": text}).rate_gbps == rate


def test_texts_without_a_line_end_and_with_two_are_the_same(tmp_path):
    files = {name: text.rstrip("\n") for name, text in infiniband("mlx5_0").items()}
    files["mlx5_0/ports/1/link_layer"] = "InfiniBand\n\n"
    assert one(tmp_path, files).usable


@pytest.mark.parametrize(
    ("files", "kind", "why"),
    [
        pytest.param({"a0/node_guid": "0000:0000:0000:0000\n"}, RdmaKind.EFA, "EFA is reached", id="efa-by-its-guid"),
        pytest.param({"a0/device/driver": ">/drivers/efa"}, RdmaKind.EFA, "EFA is reached", id="efa-by-its-driver"),
        pytest.param({}, RdmaKind.OTHER, "neither InfiniBand nor RoCE: Unknown", id="undecided"),
    ],
)
def test_an_unknown_link_layer_is_efa_or_undecided(tmp_path, files, kind, why):
    port = one(tmp_path, infiniband("a0") | {"a0/ports/1/link_layer": "Unknown\n"} | files)
    assert (port.kind, port.usable) == (kind, False)
    assert port.problems[0].startswith(why)


@pytest.mark.parametrize(
    ("name", "files", "why"),
    [
        pytest.param("hfi1_0", {}, "Omni-Path", id="by-its-name"),
        pytest.param("opa", {"opa/device/driver": ">/bus/pci/drivers/hfi1"}, "Omni-Path", id="by-its-driver"),
        pytest.param("x0", {"x0/hca_type": "I40IW\n"}, "iWARP", id="by-its-type"),
        pytest.param("x0", {"x0/node_type": "4: RNIC\n"}, "InfiniBand", id="by-its-node-type"),
        pytest.param("erdma_1", {}, "eRDMA", id="erdma"),
    ],
)
def test_other_adapters_that_say_infiniband_are_told_apart(tmp_path, name, files, why):
    port = one(tmp_path, infiniband(name) | files)
    assert (port.kind, port.usable) == (RdmaKind.OTHER, False)
    assert port.problems == (f"neither InfiniBand nor RoCE: {why}",)


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        (
            {"state": "1: DOWN\n", "phys_state": "3: Disabled\n"},
            ("its state is DOWN", "its physical state is Disabled"),
        ),
        ({"state": "2: INIT\n"}, ("its state is INIT",)),
        ({"phys_state": "0: <unknown>\n"}, ("its physical state is <unknown>",)),
        ({"phys_state": "2: Polling\n"}, ("its physical state is Polling",)),
        ({"lid": "0xffff\n"}, ("no subnet manager has configured it",)),
        ({"lid": "0x0\n", "sm_lid": "0x0\n"}, ("no subnet manager has configured it",)),
        ({"lid": "junk\n", "sm_lid": None}, ()),
        ({"state": "4: \x1b[31mACTIVE\n"}, ("its state is \\x1b[31mACTIVE",)),
    ],
)
def test_a_port_is_usable_or_says_why_not(tmp_path, change, problems):
    files = infiniband("mlx5_0") | {f"mlx5_0/ports/1/{name}": text for name, text in change.items()}
    port = one(tmp_path, files)
    assert (port.problems, port.usable) == (problems, not problems)


LINK_LOCAL = "fe80:0000:0000:0000:b83f:d2ff:fe22:1133"


@pytest.mark.parametrize(
    ("gids", "problem"),
    [
        pytest.param(
            {0: LINK_LOCAL, 1: LINK_LOCAL, 2: FREE}, "its network interface has no address", id="link-local-only"
        ),
        pytest.param(
            {0: FREE, 1: FREE},
            "it has no GID: its network interface is in another network namespace, or down",
            id="no-gid",
        ),
        pytest.param({0: LINK_LOCAL}, None, id="a-table-that-was-not-read-whole-says-nothing"),
        pytest.param({}, None, id="no-table"),
        pytest.param({0: FREE, 1: LINK_LOCAL, 2: "fd00:0000:0000:0001:0000:0000:0000:0007"}, None, id="ipv6"),
    ],
)
def test_a_roce_port_needs_an_address_on_its_interface(tmp_path, gids, problem):
    port = one(tmp_path, ethernet("mlx5_0", gids))
    assert port.problems == ((problem,) if problem else ())


def test_an_infiniband_port_needs_none(tmp_path):
    gids = {f"mlx5_0/ports/1/gids/{index}": text for index, text in enumerate((LINK_LOCAL, FREE))}
    assert one(tmp_path, infiniband("mlx5_0") | gids).usable


def test_numa_node_minus_one_means_that_the_platform_does_not_tell(tmp_path):
    (tmp_path / "numa_node").write_text("-1\n")
    assert read_numa_node(str(tmp_path)) is None


@given(st.lists(st.text(max_size=6)))
def test_any_names_have_one_order(names):
    ordered = sorted(names, key=natural_key)
    names.reverse()
    assert sorted(names, key=natural_key) == ordered


@given(
    st.fixed_dictionaries(
        {
            f"mlx5_0/ports/1/{name}": st.binary(max_size=12)
            for name in ("state", "phys_state", "rate", "lid", "sm_lid", "link_layer", "gids/0")
        }
    )
)
def test_any_bytes_in_the_files_give_a_port(tmp_path_factory, contents):
    root = tmp_path_factory.mktemp("sys")
    for name, data in contents.items():
        path = root / "class/infiniband" / name
        os.makedirs(path.parent, exist_ok=True)
        path.write_bytes(data)
    (port,) = read_rdma_ports(str(root))
    assert port.usable == (not port.problems)
