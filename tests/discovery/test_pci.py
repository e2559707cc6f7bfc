import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.pci import device_folder, iommu_type, numa_node, pci_path, pci_path_of, pcie_link
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.gpu import PcieLink

PORT = ("pci0000:15", "0000:15:01.0")  # a host bridge and a port below it
SWITCH = (*PORT, "0000:16:00.0")  # upstream bridge of a switch
GPU = (*SWITCH, "0000:17:00.0", "0000:18:00.0")


@pytest.mark.parametrize(
    ("other", "link"),
    [
        pytest.param((*SWITCH, "0000:17:01.0", "0000:19:00.0"), "PIX", id="one-switch"),
        pytest.param((*SWITCH, "0000:17:00.0", "0000:18:00.1"), "PIX", id="functions-of-one-card"),
        pytest.param(
            (*SWITCH, "0000:17:02.0", "0000:1a:00.0", "0000:1b:00.0", "0000:1c:00.0"), "PXB", id="a-switch-behind-it"
        ),
        pytest.param(("pci0000:15", "0000:15:02.0", "0000:20:00.0"), "PHB", id="another-port-of-the-host-bridge"),
        pytest.param(("pci0000:37", "0000:37:01.0", "0000:38:00.0"), "NODE", id="another-host-bridge"),
        pytest.param((), None, id="no-pci-device"),
    ],
)
def test_the_way_between_two_devices_is_read_off_their_paths(other, link):
    expected = link and PcieLink(link)
    assert pcie_link(GPU, other, (0, 0)) is expected
    assert pcie_link(other, GPU, (0, 0)) is expected


@pytest.mark.parametrize(
    ("numa", "link"), [((0, 1), PcieLink.SYS), ((0, 0), PcieLink.NODE), ((0, None), None), ((None, None), None)]
)
def test_between_host_bridges_the_numa_nodes_decide(numa, link):
    assert pcie_link(GPU, ("pci0000:37", "0000:38:00.0"), numa) is link


def test_devices_of_a_flat_virtual_machine_meet_at_the_host_bridge():
    assert pcie_link(("pci0000:00", "0000:00:05.0"), ("pci0000:00", "0000:00:06.0"), (0, 0)) is PcieLink.PHB


def test_a_path_ends_where_the_pci_devices_end():
    assert pci_path_of("devices/pci10000:e0/10000:e0:02.0/10000:e1:00.0/infiniband/mlx5_0") == (
        "pci10000:e0",
        "10000:e0:02.0",
        "10000:e1:00.0",
    )
    assert [pci_path_of(place) for place in ("", "devices/virtual/infiniband/rxe0", "devices/pci0000:00")] == [()] * 3


def test_a_path_is_found_through_the_links_of_sysfs(tmp_path):
    place = "devices/pci0000:15/0000:15:01.0/0000:16:00.0"
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    (tmp_path / "bus/pci/devices/0000:16:00.0").symlink_to(f"../../../{place}")
    sys = Tree(str(tmp_path))
    assert pci_path(sys, device_folder("00000000:16:00.0")) == ("pci0000:15", "0000:15:01.0", "0000:16:00.0")
    assert (pci_path(sys, device_folder("0000:99:00.0")), pci_path(sys, None)) == ((), ())


@pytest.mark.parametrize(
    ("address", "folder"),
    [
        ("00000000:1B:00.0", "bus/pci/devices/0000:1b:00.0"),
        ("00010000:C1:00.0", "bus/pci/devices/10000:c1:00.0"),
        ("000A:02:00.0", "bus/pci/devices/000a:02:00.0"),
        ("[N/A]", None),
        ("../../etc", None),
        (None, None),
    ],
)
def test_an_address_of_the_driver_is_a_folder_of_sysfs(address, folder):
    assert device_folder(address) == folder


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0", 0), ("-1\n", None), ("x\n", None), ("\u0661", None)])
def test_the_numa_node_is_a_number_or_not_told(tmp_path, text, node):
    (tmp_path / "numa_node").write_text(text)
    assert numa_node(Tree(str(tmp_path)), ".") == node


def test_the_iommu_is_told_in_the_kernels_word(tmp_path):
    (tmp_path / "d/iommu_group").mkdir(parents=True)
    (tmp_path / "d/iommu_group/type").write_text("DMA-FQ\n")
    assert (iommu_type(Tree(str(tmp_path)), "d"), iommu_type(Tree(str(tmp_path)), "e")) == ("DMA-FQ", None)


@given(st.text("/pci0123456789abcdef:.-", max_size=80))
def test_any_place_is_a_path_or_none(place):
    assert pci_path_of(place) == () or pci_path_of(place)[0].startswith("pci")
