import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.infiniband import natural_key, read_rdma_ports
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.rdma import Gid, RdmaKind, RdmaPort
from tests.fakes.sysfs import FREE, ethernet, infiniband, write_class


def read(tmp_path, files, dev_root=None):
    write_class(tmp_path, files)
    return read_rdma_ports(Tree(str(tmp_path)), dev_root)


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
        gids=(Gid(0, "fe80:0000:0000:0001:b83f:d203:0022:1133"),),
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
    assert read_rdma_ports(Tree(str(tmp_path))) == ()
    (tmp_path / "class/infiniband").mkdir(parents=True)
    assert read_rdma_ports(Tree(str(tmp_path))) == ()


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
        pytest.param("x0", {"x0/node_type": "4: RNIC\n"}, "iWARP", id="by-its-node-type"),
        pytest.param("erdma_1", {}, "eRDMA", id="erdma"),
        pytest.param("ibsw0", {"ibsw0/node_type": "2: switch\n"}, "a switch", id="a-switch"),
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


V4 = "0000:0000:0000:0000:0000:ffff:0a14:0007"


def test_every_address_is_listed_with_its_kind_and_interface(tmp_path):
    """As in a pod with an interface of its own: entries of other interfaces are zeros, and their attributes fail."""
    files = ethernet("mlx5_0", {0: FREE, 1: FREE, 4: LINK_LOCAL, 6: V4, 7: V4, 8: FREE})
    for index, kind in ((4, "IB/RoCE v1"), (6, "IB/RoCE v1"), (7, "RoCE v2")):
        files |= {f"mlx5_0/ports/1/gid_attrs/types/{index}": f"{kind}\n"}
        files |= {f"mlx5_0/ports/1/gid_attrs/ndevs/{index}": "net1\n"}
    files |= {f"mlx5_0/ports/1/gid_attrs/types/{index}": None for index in (0, 1, 8)}
    port = one(tmp_path, files)
    assert port.gids == (
        Gid(4, LINK_LOCAL, "IB/RoCE v1", "net1"),
        Gid(6, V4, "IB/RoCE v1", "net1"),
        Gid(7, V4, "RoCE v2", "net1"),
    )
    assert (port.netdev, port.usable) == ("net1", True)


def test_an_address_for_roce_v1_alone_is_not_enough(tmp_path):
    files = ethernet("mlx5_0", {0: LINK_LOCAL, 2: V4, 3: FREE})
    files |= {"mlx5_0/ports/1/gid_attrs/types/2": "IB/RoCE v1\n"}
    assert one(tmp_path, files).problems == ("its network interface has an address for RoCE v1 only",)


def test_partition_keys_in_use_are_listed_once(tmp_path):
    keys = {0: "0xffff\n", 1: "0x0000\n", 2: "0x8001\n", 3: "0x8001\n", 4: "junk\n", 10: "0x7FFE\n"}
    files = infiniband("mlx5_0") | {f"mlx5_0/ports/1/pkeys/{index}": key for index, key in keys.items()}
    assert one(tmp_path, files).pkeys == ("0xffff", "0x8001", "0x7ffe")


@pytest.mark.parametrize(
    ("net", "bond"),
    [
        pytest.param({"net/ens1/master": ">../bond0", "net/bond0/bonding/mode": "802.3ad 4\n"}, "bond0", id="member"),
        pytest.param({"net/ens1/bonding/mode": "802.3ad 4\n"}, "ens1", id="the-bond-itself"),
        pytest.param({"net/ens1/master": ">../br0", "net/br0/bridge/id": "x"}, None, id="a-bridge-is-none"),
        pytest.param({}, None, id="alone"),
    ],
)
def test_a_bond_is_told_by_the_interface_and_never_by_the_name(tmp_path, net, bond):
    write_class(tmp_path, {f"../{name}": text for name, text in net.items()})
    assert one(tmp_path, ethernet("mlx5_bond_0") | {"mlx5_bond_0/device/net/ens1/mtu": "9000\n"}).bond == bond


def test_a_virtual_function_names_the_adapter_that_it_is_a_part_of(tmp_path):
    files = infiniband("mlx5_0") | {
        "mlx5_0/device": ">../../../devices/pci0000:15/0000:16:00.0",
        "../../devices/pci0000:15/0000:16:00.0/virtfn0": ">../0000:16:00.1",
        "../../devices/pci0000:15/0000:16:00.0/virtfn1": ">../0000:16:00.2",
    }
    files |= infiniband("mlx5_1", lid="0x2") | {
        "mlx5_1/device": ">../../../devices/pci0000:15/0000:16:00.1",
        "../../devices/pci0000:15/0000:16:00.1/physfn": ">../0000:16:00.0",
    }
    files |= infiniband("mlx5_2", lid="0x3") | {"mlx5_2/device/physfn": ">../0000:99:00.0"}
    assert [(p.pci_bus_id, p.physical_function, p.virtual_functions) for p in read(tmp_path, files)] == [
        ("0000:16:00.0", None, 2),
        ("0000:16:00.1", "mlx5_0", 0),
        (None, "0000:99:00.0", 0),
    ]


class TestDeviceFiles:
    """What libraries open is a device file of its own."""

    FILES = infiniband("mlx5_0") | {"../infiniband_verbs/uverbs3/ibdev": "mlx5_0\n"}

    def test_a_port_is_usable_for_who_may_open_it(self, tmp_path):
        (tmp_path / "dev/infiniband").mkdir(parents=True)
        (tmp_path / "dev/infiniband/uverbs3").touch()
        (port,) = read(tmp_path, self.FILES, f"{tmp_path}/dev")
        assert (port.uverbs, port.problems) == ("uverbs3", ())

    def test_a_file_that_is_missing_is_named(self, tmp_path):
        (port,) = read(tmp_path, self.FILES, f"{tmp_path}/dev")
        assert port.problems == (f"{tmp_path}/dev/infiniband/uverbs3 is missing; a container must be given it",)

    def test_a_file_that_may_not_be_opened_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK | os.W_OK)  # root may open everything
        (tmp_path / "dev/infiniband").mkdir(parents=True)
        (tmp_path / "dev/infiniband/uverbs3").touch()
        (port,) = read(tmp_path, self.FILES, f"{tmp_path}/dev")
        assert port.problems == (f"{tmp_path}/dev/infiniband/uverbs3 may not be opened by this user",)

    @pytest.mark.parametrize("dev_root", [None, "/dev"], ids=["elsewhere", "here"])
    def test_an_adapter_without_one_cannot_be_used(self, tmp_path, dev_root):
        files = self.FILES | infiniband("mlx5_1", lid="0x2")
        port = read(tmp_path, files, dev_root)[1]
        assert port.problems == ("it has no device file: is the module ib_uverbs loaded?",)

    def test_a_recording_without_device_files_says_nothing(self, tmp_path):
        assert one(tmp_path, infiniband("mlx5_0")).usable


@pytest.mark.parametrize(
    ("files", "is_software"),
    [
        pytest.param({}, True, id="by-its-name"),
        pytest.param({"parent": "eth0\n"}, True, id="by-the-interface-below"),
        pytest.param({"hca_type": "MT4129\n"}, False, id="hardware"),
    ],
)
def test_software_roce_is_told_and_usable(tmp_path, files, is_software):
    name = "rxe0" if not files else "roce0"
    port = one(tmp_path, ethernet(name, rate="2.5") | {f"{name}/{file}": text for file, text in files.items()})
    assert (port.kind, port.usable, port.is_software) == (RdmaKind.ROCE, True, is_software)


@pytest.mark.parametrize(
    ("hca_type", "data", "problems"),
    [
        ("MT4129\n", "\x82 CX7\x00 SMDL=SW_MNG", ("neither InfiniBand nor RoCE: it manages the NVSwitches",)),
        ("MT4129\n", "\x82 CX7\x00 SN123", ()),
        ("MT4123\n", "SMDL=SW_MNG", ()),
    ],
    ids=["manages-nvswitches", "ordinary", "of-another-kind"],
)
def test_an_adapter_that_manages_nvswitches_says_so_in_its_vital_product_data(tmp_path, hca_type, data, problems):
    files = infiniband("mlx5_4") | {"mlx5_4/hca_type": hca_type, "mlx5_4/device/vpd": data}
    assert one(tmp_path, files).problems == problems


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
    (port,) = read_rdma_ports(Tree(str(root)))
    assert port.usable == (not port.problems)
