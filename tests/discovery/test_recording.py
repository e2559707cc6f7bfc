import json

import pytest

from llmgw_reconcile.discovery.inventory import begin_inventory
from llmgw_reconcile.discovery.recording import record_node
from llmgw_reconcile.model.observed import ObservedState
from tests.fakes.nvidia_smi import h100, install_nvidia_smi, lost_card, mig_slice, uuid_of
from tests.fakes.recording import install_recording
from tests.fakes.sysfs import FREE, ethernet, infiniband, write_class

TOPOLOGY = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tPIX\t0-31\t0\t\tN/A
GPU1\tNV18\t X \tPIX\t0-31\t0\t\tN/A
  NIC0: mlx5_2
"""
ADDRESS = "0000:0000:0000:0000:0000:ffff:0a14:0007"


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node with something of everything: a lost card, a split one, adapters below links, a bond."""
    folder = tmp_path / "node"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    cards = [h100(0, memory_used=900), h100(1, mig_mode_current="Enabled"), lost_card("0000:30:00.0")]
    install_nvidia_smi(
        folder,
        {
            "gpus": cards,
            "code": 255,
            "processes": [{"gpu": uuid_of(0), "pid": 4000000, "mib": 800, "name": "/home/alice/serve, v2"}],
            "slices": {uuid_of(1): [mig_slice("3g.40gb", 0, 40448)]},
            "topology": TOPOLOGY,
            "unknown": ["retired_pages.pending"],
        },
    )
    place = "../../devices/pci0000:0f/0000:0f:01.0/0000:1f:00.0"
    files = infiniband("mlx5_2", lid="0x21") | {
        "mlx5_2/device": f">../../../{place.removeprefix('../../')}",
        f"{place}/numa_node": "1\n",
        f"{place}/net/ib0/mtu": "4092\n",
        f"{place}/driver": ">/sys/bus/pci/drivers/mlx5_core",
        "mlx5_2/node_guid": "b83f:d203:0022:1133\n",
        "mlx5_2/sys_image_guid": "b83f:d203:0022:1133\n",
        "../infiniband_verbs/uverbs0/ibdev": "mlx5_2\n",
    }
    files |= ethernet("mlx5_10", {0: FREE, 3: ADDRESS}) | {
        "mlx5_10/ports/1/gid_attrs/types/3": "RoCE v2\n",
        "mlx5_10/ports/1/gid_attrs/types/0": None,
        "mlx5_10/ports/1/gid_attrs/ndevs/3": "bond0\n",
        "mlx5_10/ports/1/pkeys/0": "0xffff\n",
        "../net/bond0/bonding/mode": "802.3ad 4\n",
        "../infiniband_verbs/uverbs1/ibdev": "mlx5_10\n",
    }
    write_class(folder / "sys", files)
    return folder


def look(sys_root):
    wanted = {f"with_{what}": True for what in ("versions", "topology", "slices")}
    with begin_inventory(node="n", sys_root=str(sys_root), held_above_mb=1024, **wanted) as pending:
        return pending.finish(ObservedState())


def shape(inventory):
    """What masking must not change: all but the names of things."""
    return (
        [
            gpu._replace(
                uuid=None,
                holders=tuple(holder._replace(command=None) for holder in gpu.holders),
                health=gpu.health._replace(problems=len(gpu.health.problems)),
                mig=gpu.mig
                and gpu.mig.slices
                and [(one.profile, one.memory_mb, one.gpu_class) for one in gpu.mig.slices],
            )
            for gpu in inventory.gpus
        ],
        [
            port._replace(card=None, gids=[(gid.index, gid.kind, gid.netdev) for gid in port.gids])
            for port in inventory.hcas
        ],
        inventory.fabric,
        inventory.nvlink_domains,
        (inventory.driver_version, inventory.cuda_version, inventory.limits.iommu, len(inventory.problems)),
    )


def test_a_recording_gives_the_same_inventory_on_another_machine(node, tmp_path, monkeypatch):
    recording, _ = record_node(sys_root=str(node / "sys"), node="gpu-07")
    original = look(node / "sys")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("PATH", str(elsewhere))
    root = install_recording(elsewhere, json.loads(json.dumps(recording)))
    assert shape(look(root)) == shape(original)
    assert original.fabric.ports == ("mlx5_2:1",)
    assert [gpu.index for gpu in original.gpus] == [0, 1, None]


def test_nothing_in_it_names_the_machine_or_its_people(node):
    recording, counts = record_node(sys_root=str(node / "sys"), node="gpu-07.example.org")
    text = json.dumps(recording)
    for secret in (uuid_of(0), uuid_of(1), "b83f:d203:0022:1133", "0a14:0007", "alice", "gpu-07"):
        assert secret not in text
    assert counts["uuid"] == 3
    assert {"guid", "network", "user"} <= counts.keys()


def test_equal_values_stay_equal_across_its_parts(node):
    recording, _ = record_node(sys_root=str(node / "sys"), node="n")
    texts = recording["sys"]["texts"]
    assert texts["class/infiniband/mlx5_2/node_guid"] == texts["class/infiniband/mlx5_2/sys_image_guid"]
    gpus, apps = (tool["stdout"] for tool in recording["tools"][:2])
    assert "GPU-00000001-0000-4000-8000-000000000001" in apps
    assert recording["format_version"] == 1
    assert gpus.startswith("Field ")


def test_a_recording_answers_a_query_for_columns_that_it_lacks(node, tmp_path, monkeypatch):
    recording, _ = record_node(sys_root=str(node / "sys"), node="n")
    for tool in recording["tools"]:
        lines = tool["stdout"].split("\n")
        if lines[0].startswith("index"):  # as an older llmgw would have asked
            tool["stdout"] = "\n".join(", ".join(line.split(", ")[:8]) for line in lines)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("PATH", str(elsewhere))
    gpu = look(install_recording(elsewhere, recording)).gpus[0]
    assert (gpu.gpu_class, gpu.health.temperature_c) == ("h100-80g", None)
