import os
import subprocess

import pytest

from llmgw_reconcile.discovery.inventory import begin_inventory
from llmgw_reconcile.model.gpu import Gpu, GpuHealth, Holder, Mig
from llmgw_reconcile.model.rdma import Fabric, RdmaKind
from tests.fakes.nvidia_smi import a100, h100, install_nvidia_smi, lost_card, uuid_of
from tests.fakes.sysfs import down, infiniband, write_class

NOBODY = {}.get


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begins the inventory of a node with these cards and processes."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def begin(*, held_above_mb=1024, with_versions=False, with_gpus=True, **node):
        if node:
            install_nvidia_smi(tmp_path, {"calls": str(tmp_path / "calls"), **node})
        return begin_inventory(
            node="gpu-07",
            sys_root=str(tmp_path / "sys"),
            proc_root=str(tmp_path / "proc"),
            with_versions=with_versions,
            with_gpus=with_gpus,
            held_above_mb=held_above_mb,
        )

    return begin


def test_a_card_carries_all_that_is_known_of_it(tmp_path, begin):
    device = tmp_path / "sys/bus/pci/devices/0000:10:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    inventory = begin(with_versions=True, gpus=[h100(0)]).finish(NOBODY)
    assert inventory.gpus == (
        Gpu(
            index=0,
            uuid=uuid_of(0),
            name="NVIDIA H100 80GB HBM3",
            gpu_class="h100-80g",
            memory_total_mb=81559,
            memory_used_mb=1,
            compute_capability="9.0",
            numa_node=1,
            pci_bus_id="00000000:10:00.0",
            driver_version="570.86.15",
            cuda_version="12.8",
            mig=Mig(enabled=False),
            health=GpuHealth(ecc_errors=0, temperature_c=31),
        ),
    )
    assert (inventory.node, inventory.source) == ("gpu-07", "nvidia-smi")
    assert (inventory.driver_version, inventory.cuda_version) == ("570.86.15", "12.8")
    assert inventory.gpus_known


def test_a_domain_above_four_digits_is_looked_up_as_it_is(tmp_path, begin):
    device = tmp_path / "sys/bus/pci/devices/10000:c1:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("3\n")
    inventory = begin(gpus=[h100(0, pci_bus_id="00010000:C1:00.0")]).finish(NOBODY)
    assert inventory.gpus[0].numa_node == 3


def test_holders_are_named_and_ours_are_no_problem(tmp_path, begin):
    (tmp_path / "proc/500").mkdir(parents=True)
    (tmp_path / "proc/500/cmdline").write_bytes(b"/usr/bin/python3\0train.py\0")
    inventory = begin(
        gpus=[h100(0, memory_used=70010), h100(1, memory_used=900)],
        processes=[
            {"gpu": uuid_of(0), "pid": 400, "mib": 70000, "name": "VLLM::EngineCore"},
            {"gpu": uuid_of(1), "pid": 500, "mib": 900, "name": "python3"},
        ],
    ).finish({400: "chat@0"}.get)
    ours, foreign = inventory.gpus
    assert ours.holders == (Holder(400, None, "VLLM::EngineCore", 70000, "chat@0"),)
    assert ours.is_healthy
    (holder,) = foreign.holders
    assert (holder.pid, holder.command, holder.engine) == (500, "python3 train.py", None)
    assert foreign.health.problems == (f"900 MiB held by pid 500 python3 train.py of {holder.user}",)


def test_the_threshold_of_unexplained_memory_is_handed_on(begin):
    gpus = [h100(0, memory_used=500)]
    assert begin(gpus=gpus).finish(NOBODY).gpus[0].is_healthy
    assert begin(gpus=gpus, held_above_mb=499).finish(NOBODY).gpus[0].health.problems == (
        "500 MiB held by a process that is not visible",
    )


def test_memory_of_a_dead_process_is_seen_until_it_is_released(tmp_path, begin):
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    claims = tmp_path / "claims"
    claims.mkdir()
    (claims / "1.json").write_text(f'{{"pid": {process.pid}, "gpus": ["{uuid_of(0)}"], "mib": 5000, "drain_polls": 2}}')
    used = [begin(gpus=[h100(0)], claims=str(claims)).finish(NOBODY).gpus[0].memory_used_mb for _ in range(3)]
    assert used == [5001, 5001, 1]
    assert os.listdir(claims) == []


def test_a_lost_card_comes_last_and_is_unfit(begin):
    inventory = begin(gpus=[h100(0), lost_card("0000:30:00.0"), a100(2)]).finish(NOBODY)
    assert [(gpu.index, gpu.is_healthy) for gpu in inventory.gpus] == [(0, True), (2, True), (None, False)]
    assert inventory.gpus[2] == Gpu(
        index=None,
        uuid=None,
        name=None,
        gpu_class="unknown",
        pci_bus_id="0000:30:00.0",
        health=GpuHealth(
            problems=("nvidia-smi says: Unable to determine the device handle for GPU0000:30:00.0: Unknown Error",)
        ),
    )
    assert inventory.gpus_known


def test_processes_that_cannot_be_read_make_every_card_unfit_but_known(begin):
    inventory = begin(gpus=[h100(0)], replies={"--query-compute-apps": {"text": "", "code": 255}}).finish(NOBODY)
    assert inventory.gpus_known
    assert inventory.gpus[0].holders == ()
    assert inventory.gpus[0].health.problems == ("its processes could not be read",)


@pytest.mark.parametrize(
    "node",
    [
        {"replies": {"": {"text": "Failed to initialize NVML: Driver/library version mismatch\n", "code": 18}}},
        {"replies": {"--query-gpu": {"text": "index, uuid, na", "code": 0}}},
        {"gpus": [], "code": 0},
        {"gpus": [h100(0), h100(1)], "cut": 400},
    ],
    ids=["mismatch", "cut-off-header", "header-only", "cut-off-row"],
)
def test_a_failed_discovery_is_not_a_node_without_gpus(begin, node):
    inventory = begin(**node).finish(NOBODY)
    assert inventory.source == "nvidia-smi"
    assert not inventory.gpus_known


def test_a_node_without_the_tool_is_a_node_without_gpus(begin):
    inventory = begin().finish(NOBODY)
    assert (inventory.source, inventory.gpus, inventory.problems) == ("none", (), ())
    assert inventory.gpus_known


def test_without_gpus_the_tool_is_not_called(tmp_path, begin):
    inventory = begin(gpus=[h100(0)], with_gpus=False).finish(NOBODY)
    assert (inventory.source, inventory.gpus) == ("none", ())
    assert not (tmp_path / "calls").exists()


def test_adapters_fabric_and_limits_are_part_of_it(tmp_path, begin):
    write_class(tmp_path / "sys", infiniband("mlx5_10", lid="0x2") | infiniband("mlx5_2") | down(infiniband("mlx5_3")))
    (tmp_path / "proc/sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "proc/sys/net/ipv4/ip_local_port_range").write_text("20000\t40000\n")
    inventory = begin().finish(NOBODY)
    assert [(port.device, port.usable, port.in_fabric) for port in inventory.hcas] == [
        ("mlx5_2", True, True),
        ("mlx5_3", False, False),
        ("mlx5_10", True, True),
    ]
    assert inventory.fabric == Fabric(
        RdmaKind.INFINIBAND, ("mlx5_2:1", "mlx5_10:1"), "2 usable InfiniBand ports of 400 Gb/s"
    )
    assert inventory.limits.ephemeral_ports == (20000, 40000)


def test_an_inventory_that_is_given_up_leaves_no_tool_behind(begin):
    with pytest.raises(ValueError, match="the state file is wrong"), begin(hang=True):
        raise ValueError("the state file is wrong")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
