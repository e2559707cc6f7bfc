"""Recordings of other people's machines, where they lie beside the checkout."""

import json
from pathlib import Path

import pytest

from llmgw_reconcile.discovery.fabric import Evidence, choose_fabric
from llmgw_reconcile.discovery.gpu_class import gpu_class
from llmgw_reconcile.discovery.infiniband import read_rdma_ports
from llmgw_reconcile.discovery.nvidia_cards import PROCESS_FIELDS, Card, read_gpus, read_processes
from llmgw_reconcile.discovery.nvidia_csv import canonical
from llmgw_reconcile.discovery.nvidia_faults import CURES
from llmgw_reconcile.discovery.nvidia_mig import read_slices
from llmgw_reconcile.discovery.nvidia_smi import GPU_FIELDS, OPTIONAL_FIELDS, read_cuda_version
from llmgw_reconcile.discovery.nvidia_topo import read_matrix
from llmgw_reconcile.discovery.topology import find_topology
from llmgw_reconcile.host.tool import ToolResult
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.rdma import RdmaKind
from tests.fakes.sysfs import write_class

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recordings at {CORPUS}")

IB, ROCE, EFA, OTHER = RdmaKind.INFINIBAND, RdmaKind.ROCE, RdmaKind.EFA, RdmaKind.OTHER
EIGHT_OF_NINE = tuple(f"mlx5_{number}" for number in (0, 1, 4, 5, 6, 7, 8, 9))


def corpus_text(path):
    return (CORPUS / path).read_text()


def answer(path, code=0):
    return ToolResult(("nvidia-smi",), code, corpus_text(path), "")


def fields_of(text):
    return [canonical(field) for field in text.splitlines()[0].split(",")]


def test_every_name_has_its_class():
    rows = [line.split("\t") for line in corpus_text("names/names.tsv").splitlines()[1:]]
    wrong = {row[0]: gpu_class(row[0], int(row[1] or 0) or None) for row in rows}
    assert {name: found for name, found in wrong.items() if found not in {r[3] for r in rows if r[0] == name}} == {}
    assert len(rows) > 50


@pytest.mark.parametrize("capture", ["h100-sxm", "h200", "h200-mig", "rtx2080-super", "rtx4080-super"])
@pytest.mark.parametrize("load", ["idle", "load"])
@pytest.mark.parametrize("width", ["all", "short"])
def test_every_capture_gives_one_card_without_a_fault(capture, load, width):
    if not (CORPUS / f"nvidia-smi/cap-{capture}").is_dir():
        pytest.skip("not in this corpus")
    (card,), problems = read_gpus(answer(f"nvidia-smi/cap-{capture}/query-gpu-{width}-{load}.csv"), GPU_FIELDS)
    assert (card.index, card.faults, card.sentences, problems) == (0, (), (), ())
    assert card.memory_total_mb > card.memory_used_mb >= 0
    assert card.mig_enabled is {"h200-mig": True, "h100-sxm": False, "h200": False}.get(capture)
    assert card.compute_capability is not None
    processes, problems = read_processes(answer(f"nvidia-smi/cap-{capture}/compute-apps-{load}.csv"))
    assert problems == ()
    assert all(process.uuid == card.uuid and process.memory_mb > 0 for process in processes)


def test_the_optional_fields_are_among_those_of_a_recent_driver():
    header = fields_of(corpus_text("nvidia-smi/cap-h100-sxm/query-gpu-all-idle.csv"))
    assert set(map(canonical, (*GPU_FIELDS, *OPTIONAL_FIELDS))) <= set(header)


@pytest.mark.parametrize("capture", ["h100-sxm", "h200", "h200-mig", "rtx2080-super", "rtx4080-super"])
def test_the_whole_query_of_a_real_card_is_understood(capture):
    text = corpus_text(f"nvidia-smi/cap-{capture}/query-gpu-all-load.csv")
    (card,), problems = read_gpus(ToolResult(("nvidia-smi",), 0, text, ""), (*GPU_FIELDS, *OPTIONAL_FIELDS))
    assert (card.faults, card.slowdowns, problems) == ((), (), ())
    assert card.display is (capture == "rtx4080-super")
    assert card.persistence_mode is (not capture.startswith("rtx"))
    assert 20 <= card.temperature_c <= 90


def rows_of(path):
    return [line.split("\t") for line in corpus_text(path).splitlines()[1:]]


def test_every_return_code_has_its_cure():
    codes = {int(row[0]) for row in rows_of("nvidia-smi/RETURN-CODES.tsv") if row[0].isdigit()}
    assert codes - {0} <= CURES.keys()


def test_mig_devices_have_the_drivers_memory_and_not_the_profiles():
    known = {(row[0], row[1].partition(" ")[0]): int(row[2]) for row in rows_of("names/mig-sizes.tsv")}
    slices = read_slices(
        corpus_text("nvidia-smi/cap-h200-mig/L.txt"), corpus_text("nvidia-smi/cap-h200-mig/table-load.txt")
    )
    assert [(one.profile, one.memory_mb) for one in slices] == [
        ("1c.3g.71gb", known["NVIDIA H200", "3g.71gb"]),
        ("2c.3g.71gb", known["NVIDIA H200", "3g.71gb"]),
        ("2g.35gb", known["NVIDIA H200", "2g.35gb"]),
        ("1g.18gb", known["NVIDIA H200", "1g.18gb"]),
        ("1g.18gb", known["NVIDIA H200", "1g.18gb"]),
    ]
    assert [[pid for pid, _ in one.pids] for one in slices] == [[], [12249, 12250, 12267], [], [], []]
    for name, profile in known:
        assert gpu_class(f"{name} MIG {profile}", known[name, profile]).endswith(f"-mig-{profile}")


@pytest.mark.parametrize(
    ("path", "profiles"),
    [
        ("L-4xa100-mig-on-first-only.txt", {"1g.20gb": 4}),
        ("L-a100-80gb-7xmig.txt", {"1g.10gb": 7}),
        ("L-gb10.txt", {}),
        ("L-mixed-titan-v-5880.txt", {}),
        ("L-one-lost.txt", {}),
    ],
)
def test_every_list_gives_its_mig_devices(path, profiles):
    slices = read_slices(corpus_text(f"nvidia-smi/{path}"), "")
    assert {one.profile: sum(other.profile == one.profile for other in slices) for one in slices} == profiles
    assert len({one.uuid for one in slices}) == len(slices)
    assert len({one.card for one in slices}) <= 1


EIGHT = tuple(range(8))


@pytest.mark.parametrize(
    ("path", "gpus", "domains", "near"),
    [
        ("76-nics-head.txt", 8, None, {}),
        ("a100-4gpu-nv4-8numa.txt", 4, ((0, 1, 2, 3),), {"mlx5_0": (0, 1), "mlx5_1": (2, 3)}),
        ("a100-8gpu-nv12-10nic.txt", 8, (EIGHT,), {"mlx5_0": (2, 3), "mlx5_6": (), "mlx5_7": (), "mlx5_9": (4, 5)}),
        ("b300-8gpu-8ib-bond.txt", 8, (EIGHT,), {"mlx5_10": (0,), "mlx5_17": (7,), "mlx5_bond_0": ()}),
        ("gb10-4roce.txt", 1, (), {"rocep1s0f0": (), "roceP2p1s0f0": ()}),
        ("gb200-4gpu-head.txt", 4, ((0, 1, 2, 3),), {}),
        ("h100-8gpu-8ib-5eth.txt", 8, (EIGHT,), {"mlx5_ib0": (0, 1), "mlx5_ib7": (6, 7), "mlx5_eth0": ()}),
        ("h100-misaligned-columns-head.txt", 5, ((0, 1, 2, 3, 4),), {}),
        ("single-h100-sxm.txt", 1, (), {}),
        ("single-h200-mig.txt", 1, (), {}),
        ("single-h200.txt", 1, (), {}),
        ("single-rtx2080-super.txt", 1, (), {}),
        ("single-rtx4080-super.txt", 1, (), {}),
        ("v100-8gpu-hybrid-cube-440.33.txt", 8, ((0, 1, 2, 3), (4, 5, 6, 7)), {"mlx5_0": (2, 3)}),
    ],
)
def test_every_topology_gives_its_domains_and_the_adapters_near_each_card(tmp_path, path, gpus, domains, near):
    matrix = read_matrix(corpus_text(f"topo/{path}"))
    cards = [Card(index=index) for index in range(gpus)]
    topology = find_topology(cards, sorted({device for _, device in matrix.adapters}), matrix, Tree(str(tmp_path)))
    assert topology.nvlink_domains == domains
    assert {device: topology.near_gpus.get(device) for device in near} == near


@pytest.mark.parametrize(
    ("path", "numa"),
    [
        ("a100-4gpu-nv4-8numa.txt", {0: 2, 1: 2, 2: 6, 3: 6}),
        ("gb200-4gpu-head.txt", {0: 0, 1: 0, 2: 1}),
        ("h100-misaligned-columns-head.txt", {}),
        ("v100-8gpu-hybrid-cube-440.33.txt", {}),
        ("single-h200.txt", {0: 0}),
    ],
)
def test_numa_nodes_are_told_or_left_open(path, numa):
    assert read_matrix(corpus_text(f"topo/{path}")).numa == numa


def test_the_cuda_version_is_found_in_tables_of_all_releases():
    found = {
        path.parent.name: read_cuda_version(path.read_text()) for path in CORPUS.glob("nvidia-smi/*/table-idle.txt")
    }
    assert found["cap-h100-sxm"] == "13.1"
    assert found["cap-rtx2080-super"] == "13.3"
    assert None not in found.values()


@pytest.mark.parametrize(
    ("path", "code", "cure"),
    [
        ("fail-driver-not-loaded.txt", 9, "modprobe"),
        ("fail-gpu-is-lost.txt", 15, "off the bus"),
        ("fail-no-devices.txt", 6, "lspci"),
        ("fail-nvml-mismatch-550.144.txt", 18, "reload"),
        ("fail-unknown-error-handle.txt", 255, "Xid"),
    ],
)
def test_every_failure_is_an_error_with_its_cure(path, code, cure):
    _, (problem,) = read_gpus(answer(f"nvidia-smi/{path}", code), GPU_FIELDS)
    assert problem.severity == "error"
    assert cure in problem.hint


def test_a_lost_card_in_the_middle_of_rows_leaves_the_others():
    text = (
        "index, name, fan.speed [%], clocks.gr, clocks.mem, utilization.gpu [%], memory.used, pstate, power.draw [W]\n"
    )
    text += corpus_text("nvidia-smi/query-two-gpus-one-lost-handle.csv")
    result = ToolResult(("nvidia-smi",), 255, text, "")
    cards, problems = read_gpus(result, fields_of(text))
    assert [(card.index, card.pci_bus_id, len(card.sentences)) for card in cards] == [
        (0, None, 0),
        (2, None, 0),
        (None, "0000:02:00.0", 1),
    ]
    assert problems == ()


@pytest.mark.parametrize(
    ("path", "faults"),
    [
        ("query-gb10-header.csv", ()),
        ("query-requires-reset.csv", (("temperature.gpu", "[GPU requires reset]"),)),
        (
            "query-mig-container-insufficient-permissions.csv",
            (("memory.total", "[Insufficient Permissions]"), ("memory.used", "[Insufficient Permissions]")),
        ),
    ],
)
def test_cells_without_a_value_are_faults_or_merely_unsupported(path, faults):
    result = answer(f"nvidia-smi/{path}")
    (card,), _ = read_gpus(result, fields_of(result.stdout))
    assert card.faults == faults


def test_a_display_card_in_the_middle_is_a_class_of_its_own():
    header = "index, name, memory.used [MiB], utilization.gpu [%]\n"
    text = header + corpus_text("nvidia-smi/query-dgx-station-display.csv")
    cards, _ = read_gpus(ToolResult(("nvidia-smi",), 0, text, ""), fields_of(text))
    assert [gpu_class(card.name, None) for card in cards] == ["a100-?", "a100-?", "a100-?", "dgxdisplay-?", "a100-?"]


def test_a_pci_domain_is_a_number_of_any_size():
    result = answer("nvidia-smi/query-azure-pci-domain.csv")
    cards, _ = read_gpus(result, fields_of(result.stdout))
    assert [card.pci_bus_id for card in cards] == [
        "00000001:00:00.0",
        "00000002:00:00.0",
        "0000000A:00:00.0",
        "0000000D:00:00.0",
    ]


@pytest.mark.parametrize("path", sorted(p.name for p in CORPUS.glob("nvidia-smi/*.*")) if CORPUS.is_dir() else [])
def test_no_text_of_the_tool_breaks_a_parser(path):
    text = corpus_text(f"nvidia-smi/{path}")
    for code in (0, 14, 255):
        result = ToolResult(("nvidia-smi",), code, text, text)
        cards, problems = read_gpus(result, GPU_FIELDS)
        assert cards or problems
        read_processes(result)
    read_matrix(text)
    read_slices(text, text)


def test_processes_of_unknown_size_stay_unknown():
    processes, _ = read_processes(answer("nvidia-smi/compute-apps-windows-na.csv"))
    assert [process.memory_mb for process in processes] == [None, None]
    assert len(PROCESS_FIELDS) == 4


@pytest.mark.parametrize(
    ("case", "kind", "devices", "kinds"),
    [
        ("all-down", None, (), {IB, ROCE}),
        ("aws-efa", None, (), {EFA}),
        ("azure-a100-8ib200-1eth40", IB, tuple(f"mlx5_{n}" for n in range(8)), {IB, ROCE}),
        ("azure-endure", None, (), {OTHER}),
        ("gb10-roce-2up-2down", ROCE, ("rocep1s0f0", "roceP2p1s0f0"), {ROCE}),
        ("h100-8ib400-1roce100-3down", IB, tuple(f"mlx5_{n}" for n in (0, 3, 4, 5, 6, 9, 10, 11)), {IB, ROCE}),
        ("h100-8ib400-bond-ibstat", IB, EIGHT_OF_NINE, {IB, ROCE}),
        ("h100-8ib400-bond-sysfs", IB, EIGHT_OF_NINE, {IB, ROCE}),
        ("h100-roce400-2down", ROCE, tuple(f"mlx5_{n}" for n in (0, 3, 4, 6, 9, 10)), {ROCE}),
        ("h20-4bond-roce", ROCE, tuple(f"mlx5_bond_{n}" for n in range(4)), {ROCE}),
        ("no-class-directory", None, (), set()),
        ("node-exporter-i40iw-mlx4", IB, ("mlx4_0", "mlx4_0"), {IB, OTHER}),
        ("procfs-hfi1-mlx4-mlx5", IB, ("mlx4_0", "mlx4_0"), {IB, OTHER}),
        ("roce-macvlan-sparse-gids", ROCE, ("mlx5_0",), {ROCE}),
        ("soft-roce", None, (), {ROCE}),
    ],
)
def test_every_tree_of_adapters_gives_its_fabric(tmp_path, case, kind, devices, kinds):
    tree = json.loads(corpus_text(f"ib/{case}/tree.json"))
    write_class(tmp_path, tree["files"] | dict.fromkeys(tree.get("errors", ())))
    ports, fabric = choose_fabric(read_rdma_ports(Tree(str(tmp_path))), Evidence(gpu_count=8))
    assert fabric.kind is kind
    assert tuple(port.device for port in ports if port.in_fabric) == devices
    assert {port.kind for port in ports} == kinds


def test_in_a_pod_with_an_interface_of_its_own_the_addresses_begin_at_4(tmp_path):
    tree = json.loads(corpus_text("ib/roce-macvlan-sparse-gids/tree.json"))
    write_class(tmp_path, tree["files"] | dict.fromkeys(tree["errors"]))
    (port,) = read_rdma_ports(Tree(str(tmp_path)))
    assert [(gid.index, gid.kind, gid.netdev) for gid in port.gids] == [
        (4, "IB/RoCE v1", "net1"),
        (5, "RoCE v2", "net1"),
        (6, "IB/RoCE v1", "net1"),
        (7, "RoCE v2", "net1"),
    ]


def test_software_roce_is_told_by_its_reason(tmp_path):
    write_class(tmp_path, json.loads(corpus_text("ib/soft-roce/tree.json"))["files"])
    (port,), fabric = choose_fabric(read_rdma_ports(Tree(str(tmp_path))))
    assert (port.usable, port.is_software, port.rate_gbps) == (True, True, 2.5)
    assert "rxe0:1 (software RoCE" in fabric.reason
