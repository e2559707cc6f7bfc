"""What a member of a group is told about its network, and that NCCL understands exactly that by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.engines.link import link_of
from llmgw_reconcile.engines.nccl import group_environment, lacks_gid_index
from llmgw_reconcile.model.desired import Device, FabricChoice, GroupNode
from llmgw_reconcile.model.group import Link, Network
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort
from tests.fakes.placed import a_model

IB, ROCE, EFA = RdmaKind.INFINIBAND, RdmaKind.ROCE, RdmaKind.EFA
ON_BOND0 = {"interface": "bond0", "address": "10.1.0.7"}


def environment(link: Link, **fields: object) -> dict[str, str]:
    return group_environment(link, a_model(**fields), address_variable="VLLM_HOST_IP")


@pytest.mark.parametrize(
    ("link", "fields", "expected"),
    [
        pytest.param(
            Link(IB, ("mlx5_0:1", "mlx5_3:1"), **ON_BOND0),
            {},
            {
                "NCCL_IB_HCA": "=mlx5_0:1,mlx5_3:1",
                "NCCL_NET": "IB",
                "NCCL_SOCKET_IFNAME": "=bond0",
                "GLOO_SOCKET_IFNAME": "bond0",
                "VLLM_HOST_IP": "10.1.0.7",
            },
            id="infiniband",
        ),
        pytest.param(
            Link(ROCE, ("mlx5_bond_0:1",)),
            {},
            {"NCCL_IB_HCA": "=mlx5_bond_0:1", "NCCL_NET": "IB"},
            id="roce-on-an-interface-that-is-not-known",
        ),
        pytest.param(
            Link(ROCE, ("rocep1:1", "rocep2:1"), isolated_rails=True),
            {},
            {"NCCL_IB_HCA": "=rocep1:1,rocep2:1", "NCCL_NET": "IB", "NCCL_CROSS_NIC": "0"},
            id="isolated-rails-are-not-crossed",
        ),
        pytest.param(
            Link(None, **ON_BOND0),
            {},
            {
                "NCCL_IB_DISABLE": "1",
                "NCCL_SOCKET_IFNAME": "=bond0",
                "GLOO_SOCKET_IFNAME": "bond0",
                "VLLM_HOST_IP": "10.1.0.7",
            },
            id="sockets",
        ),
        pytest.param(
            Link(EFA, **ON_BOND0),
            {"args": ("--all2all-backend", "deepep_low_latency")},
            {"NCCL_SOCKET_IFNAME": "=bond0", "GLOO_SOCKET_IFNAME": "bond0", "VLLM_HOST_IP": "10.1.0.7"},
            id="efa-is-left-alone",
        ),
        pytest.param(
            Link(IB, ("mlx5_0:1",), **ON_BOND0),
            {"device": Device.CPU},
            {"GLOO_SOCKET_IFNAME": "bond0", "VLLM_HOST_IP": "10.1.0.7"},
            id="without-gpus-there-is-no-nccl",
        ),
        pytest.param(
            Link(IB, ("mlx5_0:1", "mlx5_1:1")),
            {"args": ("--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}')},
            {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_NET": "IB", "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1,lo"},
            id="nixl-keeps-a-way-to-itself",
        ),
        pytest.param(
            Link(IB, ("mlx5_0:1",), **ON_BOND0),
            {"args": ("--all2all-backend=deepep_high_throughput",)},
            {
                "NCCL_IB_HCA": "=mlx5_0:1",
                "NCCL_NET": "IB",
                "NCCL_SOCKET_IFNAME": "=bond0",
                "GLOO_SOCKET_IFNAME": "bond0",
                "VLLM_HOST_IP": "10.1.0.7",
                "NVSHMEM_HCA_LIST": "mlx5_0:1",
                "NVSHMEM_ENABLE_NIC_PE_MAPPING": "1",
                "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME": "bond0",
            },
            id="deepep-has-the-same-list",
        ),
    ],
)
def test_a_member_is_told_exactly_this(link: Link, fields: dict[str, object], expected: dict[str, str]) -> None:
    assert environment(link, **fields) == expected


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        pytest.param(ROCE, {"env": {"VLLM_ALL2ALL_BACKEND": "deepep_low_latency"}}, True, id="roce"),
        pytest.param(IB, {"args": ("--moe-a2a-backend", "deepep")}, False, id="infiniband-needs-none"),
        pytest.param(ROCE, {}, False, id="nothing-of-nvshmem"),
        pytest.param(
            ROCE,
            {"args": ("--moe-a2a-backend", "deepep"), "env": {"NVSHMEM_IB_GID_INDEX": "3"}},
            False,
            id="the-file-says-it",
        ),
    ],
)
def test_nvshmem_on_roce_lacks_a_gid_where_neither_file_nor_ports_say_it(
    kind: RdmaKind, fields: dict[str, object], expected: bool
) -> None:
    assert lacks_gid_index(Link(kind, ("mlx5_0:1",)), a_model(**fields)) is expected


def test_nvshmem_is_told_the_gid_that_all_ports_have_at_one_index() -> None:
    link = Link(ROCE, ("mlx5_0:1", "mlx5_1:1"), gid_index=5)
    deepep = {"args": ("--moe-a2a-backend", "deepep")}
    assert environment(link, **deepep)["NVSHMEM_IB_GID_INDEX"] == "5"
    assert not lacks_gid_index(link, a_model(**deepep))


# ---- what NCCL makes of a list ----


def selected_by_nccl(value: str, ports: list[RdmaPort]) -> list[str]:
    """NCCL's own rules: `^` turns the list round, then `=` makes it exact; a port is optional, and 0 where it is no
    number; what is not ACTIVE is passed over before. An empty list is all of them."""
    is_inverted, value = value.startswith("^"), value.removeprefix("^")
    is_exact, value = value.startswith("="), value.removeprefix("=")
    entries = [entry.split(":") for entry in value.split(",") if entry]

    def matches(port: RdmaPort, name: str, number: str | None = None, *_: str) -> bool:
        is_named = port.device == name if is_exact else port.device.startswith(name)
        return is_named and (number is None or port.port == (int(number) if number.isdecimal() else 0))

    chosen = []
    for port in ports:
        is_listed = not entries or any(matches(port, *entry) for entry in entries)
        if port.state == "ACTIVE" and is_listed != is_inverted:
            chosen.append(f"{port.device}:{port.port}")
    return chosen


def port(device: str, number: int = 1, **fields: object) -> RdmaPort:
    known = {"kind": IB, "state": "ACTIVE", "usable": True, **fields}
    return RdmaPort(device, number, **known)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("hca_1", ["hca_1:1", "hca_10:1", "hca_10:2"], id="a-name-is-a-prefix"),
        pytest.param("hca_1:1", ["hca_1:1", "hca_10:1"], id="a-port-does-not-make-it-exact"),
        pytest.param("=hca_1", ["hca_1:1"], id="exact"),
        pytest.param("=hca_10:2,hca_0:1", ["hca_0:1", "hca_10:2"], id="exact-with-ports"),
        pytest.param("^=hca_1", ["hca_0:1", "hca_10:1", "hca_10:2"], id="all-but-one"),
        pytest.param("=^hca_1", [], id="the-wrong-order"),
        pytest.param("=hca_0,=hca_1", ["hca_0:1"], id="the-second-sign-is-part-of-a-name"),
        pytest.param("=hca_0, hca_1", ["hca_0:1"], id="a-blank-is-part-of-a-name"),
        pytest.param("=hca_0:x", [], id="no-number-is-port-0"),
        pytest.param("", ["hca_0:1", "hca_1:1", "hca_10:1", "hca_10:2"], id="empty-is-all"),
        pytest.param("^", [], id="not-all-is-none"),
    ],
)
def test_the_rules_of_nccl_as_they_were_read(value: str, expected: list[str]) -> None:
    ports = [port("hca_0"), port("hca_1"), port("hca_2", state="DOWN"), port("hca_10"), port("hca_10", 2)]
    assert selected_by_nccl(value, ports) == expected


# Names that are the beginning of each other are what goes wrong.
NAMES = st.one_of(
    st.from_regex(r"\Amlx5_(bond_)?[0-9]{1,2}\Z"),
    st.from_regex(r"\A(roce|ib)p?[0-9]{0,3}s?[0-9]?\Z"),
    st.text("abm_x-.5", min_size=1, max_size=6),
)
PORTS = st.lists(
    st.builds(
        port,
        NAMES,
        st.integers(1, 3),
        state=st.sampled_from(["ACTIVE", "ACTIVE", "DOWN", "INIT"]),
        kind=st.sampled_from([IB, IB, ROCE]),
    ),
    max_size=32,
    unique_by=lambda one: (one.device, one.port),
)


@given(PORTS, st.data())
def test_the_list_selects_exactly_the_ports_of_the_fabric(ports: list[RdmaPort], data: st.DataObject) -> None:
    candidates = [f"{one.device}:{one.port}" for one in ports if one.state == "ACTIVE" and one.kind is IB]
    fabric = data.draw(st.lists(st.sampled_from(candidates), unique=True)) if candidates else []
    inventory = Inventory("gpu-07", "none", hcas=tuple(ports), fabric=Fabric(IB if fabric else None, tuple(fabric), ""))
    told = environment(link_of(GroupNode("gpu-07", "gpu-07"), FabricChoice(), inventory, Network()))
    if fabric:
        assert sorted(selected_by_nccl(told["NCCL_IB_HCA"], ports)) == sorted(fabric)
        assert told["NCCL_NET"] == "IB"
    else:
        assert told == {"NCCL_IB_DISABLE": "1"}


@given(PORTS, st.data())
def test_the_list_selects_exactly_the_adapters_that_the_file_names(ports: list[RdmaPort], data: st.DataObject) -> None:
    good = [one for one in ports if one.state == "ACTIVE" and one.kind is IB]
    whole = sorted({one.device for one in good} - {one.device for one in ports if one.kind is not IB})
    named = (
        data.draw(st.lists(st.sampled_from([*whole, *(f"{one.device}:{one.port}" for one in good)]), min_size=1))
        if good
        else []
    )
    inventory = Inventory("gpu-07", "none", hcas=tuple(ports))
    choice = FabricChoice(hcas=tuple(named), use_rdma=bool(named))
    told = environment(link_of(GroupNode("gpu-07", "gpu-07"), choice, inventory, Network()))
    wanted = {f"{one.device}:{one.port}" for one in good if {one.device, f"{one.device}:{one.port}"} & set(named)}
    assert set(selected_by_nccl(told["NCCL_IB_HCA"], ports) if named else ()) == wanted
