"""Recordings of other people's machines, where they lie beside the checkout."""

import json
from pathlib import Path

import pytest

from llmgw_reconcile.discovery.fabric import choose_fabric
from llmgw_reconcile.discovery.gpu_class import gpu_class
from llmgw_reconcile.discovery.infiniband import read_rdma_ports
from llmgw_reconcile.discovery.nvidia_cards import PROCESS_FIELDS, read_gpus, read_processes
from llmgw_reconcile.discovery.nvidia_csv import canonical
from llmgw_reconcile.discovery.nvidia_smi import GPU_FIELDS, OPTIONAL_FIELDS, read_cuda_version
from llmgw_reconcile.host.tool import ToolResult
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
    assert {*GPU_FIELDS, *OPTIONAL_FIELDS} <= set(header)


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
        ("soft-roce", ROCE, ("rxe0",), {ROCE}),
    ],
)
def test_every_tree_of_adapters_gives_its_fabric(tmp_path, case, kind, devices, kinds):
    tree = json.loads(corpus_text(f"ib/{case}/tree.json"))
    write_class(tmp_path, tree["files"] | dict.fromkeys(tree.get("errors", ())))
    ports, fabric = choose_fabric(read_rdma_ports(str(tmp_path)))
    assert fabric.kind is kind
    assert tuple(port.device for port in ports if port.in_fabric) == devices
    assert {port.kind for port in ports} == kinds
