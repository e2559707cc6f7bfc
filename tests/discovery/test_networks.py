import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.networks import Services, read_services
from llmgw_reconcile.host.tree import Tree

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def number(address):
    """As the kernel prints it on this machine."""
    return f"{int.from_bytes(bytes(map(int, address.split('.'))), sys.byteorder):08X}"


def route(interface, network, mask, *, gateway="0.0.0.0", flags="0001"):
    fields = (interface, number(network), number(gateway), flags, "0", "0", "0", number(mask), "0", "0", "0")
    return "\t".join(fields) + "\n"


DEFAULT = route("bond0", "0.0.0.0", "0.0.0.0", gateway="10.0.0.1", flags="0003")
STORAGE = route("ens7", "10.2.0.0", "255.255.0.0")


def services(tmp_path, routes="", mounts=""):
    (tmp_path / "net").mkdir(exist_ok=True)
    (tmp_path / "net/route").write_text(HEAD + routes)
    (tmp_path / "mounts").write_text(mounts)
    return read_services(Tree(str(tmp_path)))


def test_the_default_route_is_how_people_come(tmp_path):
    assert services(tmp_path, DEFAULT + STORAGE) == Services(management=frozenset({"bond0"}))


@pytest.mark.parametrize(
    "mount",
    [
        "nas:/models /models nfs4 rw,vers=4.2,addr=10.2.0.5,clientaddr=10.9.0.1 0 0\n",
        "10.2.0.5:/models /models nfs rw 0 0\n",
        "10.2.0.5@o2ib:10.2.0.6@o2ib:/fs1 /lustre lustre rw,flock 0 0\n",
        "10.2.255.5:6789,10.2.0.6:6789:/ /ceph ceph rw 0 0\n",
        "//10.2.0.5/share /share cifs rw,addr=10.2.0.5 0 0\n",
    ],
    ids=["nfs-by-name", "nfs", "lustre", "ceph", "cifs"],
)
def test_an_interface_whose_network_has_a_file_server_serves_storage(tmp_path, mount):
    assert services(tmp_path, STORAGE, mount) == Services(storage=frozenset({"ens7"}))


@pytest.mark.parametrize(
    ("routes", "mount"),
    [
        pytest.param(STORAGE, "10.3.0.5:/models /models nfs rw 0 0\n", id="a-server-elsewhere"),
        pytest.param(STORAGE, "/dev/sda1 /10.2.0.5 ext4 rw,addr=10.2.0.5 0 0\n", id="a-local-disk"),
        pytest.param(STORAGE, "10.2.0.999:/x /x nfs rw 0 0\n", id="no-address"),
        pytest.param(
            route("ens7", "10.2.0.0", "255.255.0.0", gateway="10.9.0.1", flags="0003"),
            "10.2.0.5:/x /x nfs rw 0 0\n",
            id="behind-a-router",
        ),
        pytest.param(route("ens7", "10.2.0.0", "255.255.0.0", flags="0000"), "10.2.0.5:/x /x nfs rw 0 0\n", id="down"),
    ],
)
def test_others_serve_nothing(tmp_path, routes, mount):
    assert services(tmp_path, routes, mount) == Services()


def test_a_node_that_does_not_tell_has_no_services(tmp_path):
    assert read_services(Tree(str(tmp_path))) == Services()


def test_an_interface_serves_what_its_bond_or_its_vlans_serve():
    known = Services(management=frozenset({"bond0.100"}), storage=frozenset({"ens7"}))
    assert known.of(("ens1", "bond0")) == "carries the default route"
    assert known.of(("ens7", None)) == "reaches a file server"
    assert known.of(("ens70", None)) == known.of((None, None)) == ""


@given(st.text("ens0123AF \t\n", max_size=200), st.text("nfs 10.2:/,addr=\n", max_size=100))
def test_any_tables_give_services(tmp_path_factory, routes, mounts):
    read = services(tmp_path_factory.mktemp("proc"), routes, mounts)
    assert not read.management & {""}
