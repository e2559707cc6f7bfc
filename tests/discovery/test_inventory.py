import os
import subprocess

import pytest

from llmgw_reconcile.discovery import inventory as inventory_module
from llmgw_reconcile.discovery import owners
from llmgw_reconcile.discovery.inventory import begin_inventory
from llmgw_reconcile.model.gpu import AdapterLink, Gpu, GpuHealth, GpuLink, Holder, HolderKind, Mig, PcieLink
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase
from llmgw_reconcile.model.rdma import Fabric, RdmaKind
from tests.fakes.nvidia_smi import (
    a100,
    card,
    h100,
    install_nvidia_smi,
    lost_card,
    mig_slice,
    slice_uuid,
    uuid_of,
)
from tests.fakes.sysfs import down, ethernet, infiniband, write_class

NOBODY = ObservedState()
UNSEEN = ", which is not visible here: in another PID namespace, hidden, or just ended"


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begins the inventory of a node with these cards and processes."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def begin(*, held_above_mb=1024, wanted=(), with_gpus=True, **node):
        if node:
            install_nvidia_smi(tmp_path, {"calls": str(tmp_path / "calls"), **node})
        return begin_inventory(
            node="gpu-07",
            sys_root=str(tmp_path / "sys"),
            proc_root=str(tmp_path / "proc"),
            with_gpus=with_gpus,
            held_above_mb=held_above_mb,
            **{f"with_{what}": True for what in wanted},
        )

    return begin


@pytest.fixture
def ours(monkeypatch):
    """Makes processes ours: pid -> engine."""

    def ours(engines):
        monkeypatch.setattr(owners, "engine_finder", lambda _: engines.get)

    return ours


def running(tmp_path, *pids):
    """Processes that /proc shows."""
    for pid in pids:
        (tmp_path / "proc" / str(pid)).mkdir(parents=True, exist_ok=True)


def calls(tmp_path):
    return sorted(line.split(" ")[0].partition("=")[0] for line in (tmp_path / "calls").read_text().splitlines())


def test_a_card_carries_all_that_is_known_of_it(tmp_path, begin):
    device = tmp_path / "sys/bus/pci/devices/0000:10:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    inventory = begin(wanted=["versions"], gpus=[h100(0)]).finish(NOBODY)
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
            display=False,
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


def test_holders_are_named_and_ours_are_no_problem(tmp_path, begin, ours):
    running(tmp_path, 500)
    (tmp_path / "proc/500/cmdline").write_bytes(b"/usr/bin/python3\0train.py\0")
    ours({400: "chat@0"})
    inventory = begin(
        gpus=[h100(0, memory_used=70010), h100(1, memory_used=900)],
        processes=[
            {"gpu": uuid_of(0), "pid": 400, "mib": 70000, "name": "VLLM::EngineCore"},
            {"gpu": uuid_of(1), "pid": 500, "mib": 900, "name": "python3"},
        ],
    ).finish(NOBODY)
    mine, foreign = inventory.gpus
    assert mine.holders == (Holder(400, None, "VLLM::EngineCore", 70000, "chat@0", HolderKind.OURS),)
    assert mine.is_healthy
    (holder,) = foreign.holders
    assert (holder.pid, holder.command, holder.engine) == (500, "python3 train.py", None)
    assert foreign.health.problems == (f"900 MiB held by pid 500 python3 train.py of {holder.user}",)


def test_what_is_left_of_an_engine_of_ours_is_no_stranger(begin, ours):
    ours({400: "chat@0"})
    observed = ObservedState(engines=(ObservedEngine("chat@0", Phase.ORPHANED),))
    processes = [{"gpu": uuid_of(0), "pid": 400, "mib": 70000}]
    (gpu,) = begin(gpus=[h100(0, memory_used=70010)], processes=processes).finish(observed).gpus
    assert (gpu.holders[0].kind, gpu.holders[0].engine) == (HolderKind.LEFT_OVER, "chat@0")
    assert gpu.is_healthy


def test_a_process_of_another_pid_namespace_is_not_visible_and_in_the_way(begin):
    processes = [{"gpu": uuid_of(0), "pid": 4000000, "mib": 61190, "name": "/opt/serve"}]
    (gpu,) = begin(gpus=[h100(0, memory_used=61204)], processes=processes).finish(NOBODY).gpus
    assert gpu.holders == (Holder(4000000, None, "serve", 61190, None, HolderKind.NOT_VISIBLE),)
    assert gpu.health.problems == (f"61190 MiB held by pid 4000000 serve{UNSEEN}",)


def test_cards_that_another_users_llmgw_gave_away_are_held_from_the_first_moment(tmp_path, begin, monkeypatch):
    running(tmp_path, 61)
    (tmp_path / "proc/61/cmdline").write_text(f"llmgw: supervisor chat@0 {uuid_of(1)}\0")
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    free, taken = begin(gpus=[h100(0), h100(1)]).finish(NOBODY).gpus
    assert free.is_healthy
    (holder,) = taken.holders
    assert (holder.pid, holder.command, holder.kind) == (61, "llmgw: supervisor chat@0", HolderKind.OTHER_LLMGW)
    assert taken.health.problems == (
        f"given to an engine of another llmgw: pid 61 llmgw: supervisor chat@0 of {holder.user}",
    )


def test_a_process_below_another_llmgws_supervisor_is_told_from_strangers(tmp_path, begin):
    running(tmp_path, 61, 62, 63)
    (tmp_path / "proc/61/cmdline").write_text(f"llmgw: supervisor chat@0 {uuid_of(0)}\0")
    (tmp_path / "proc/62/stat").write_text("62 (x) S 61 1 1 0\n")
    (tmp_path / "proc/63/stat").write_text("63 (x) S 1 1 1 0\n")
    processes = [{"gpu": uuid_of(0), "pid": pid, "mib": 900} for pid in (62, 63)]
    (gpu,) = begin(gpus=[h100(0, memory_used=1800)], processes=processes).finish(NOBODY).gpus
    assert [(holder.pid, holder.kind) for holder in gpu.holders] == [
        (62, HolderKind.OTHER_LLMGW),
        (63, HolderKind.FOREIGN),
    ]


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


def test_routes_and_mounts_are_evidence_on_this_machine_alone(tmp_path, begin, monkeypatch):
    routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask\neth0 00000000 0100000A 0003 0 0 0 00000000\n"
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/route").write_text(routes)
    files = {"mlx5_0/device/net/eth0/mtu": "1500", "mlx5_1/device/net/eth1/mtu": "1500"}
    files |= {f"../infiniband_verbs/uverbs{n}/ibdev": f"mlx5_{n}\n" for n in range(2)}
    write_class(tmp_path / "sys", ethernet("mlx5_0") | ethernet("mlx5_1") | files)
    assert begin().finish(NOBODY).fabric.ports == ("mlx5_0:1", "mlx5_1:1")  # another machine's adapters
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    for number in range(2):
        (tmp_path / f"dev/infiniband/uverbs{number}").touch()
    monkeypatch.setattr(inventory_module, "REAL_SYS", str(tmp_path / "sys"))
    monkeypatch.setattr(inventory_module, "REAL_DEV", str(tmp_path / "dev"))
    assert begin().finish(NOBODY).fabric.ports == ("mlx5_1:1",)


def test_adapters_that_nobody_asks_for_are_not_looked_at(tmp_path, begin):
    write_class(tmp_path / "sys", infiniband("mlx5_0"))
    pending = begin_inventory(
        node="n", sys_root=str(tmp_path / "sys"), held_above_mb=1, with_gpus=False, with_fabric=False
    )
    inventory = pending.finish(NOBODY)
    assert (inventory.hcas, inventory.fabric.reason) == ((), "no RDMA adapters were looked for")


TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV12\tSYS\tPIX\t0-31\t0\t\tN/A
GPU1\tNV12\t X \tSYS\tPXB\t0-31\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPIX\tPXB\tSYS\t X \t\t\t\t
  NIC0: mlx5_0
"""


def test_the_topology_is_part_of_it_where_it_is_asked_for(tmp_path, begin):
    write_class(tmp_path / "sys", infiniband("mlx5_0"))
    found = begin(wanted=["topology"], gpus=[h100(n) for n in range(3)], topology=TOPOLOGY).finish(NOBODY)
    assert found.nvlink_domains == ((0, 1),)
    assert [gpu.nvlink_peers for gpu in found.gpus] == [(1,), (0,), ()]
    assert [gpu.numa_node for gpu in found.gpus] == [0, 0, 1]
    assert found.gpus[0].links == (GpuLink(1, 12, None), GpuLink(2, 0, PcieLink.SYS))
    assert found.gpus[1].adapters == (AdapterLink("mlx5_0", PcieLink.PXB),)
    assert found.hcas[0].near_gpus == (0, 1)


def test_the_topology_can_be_asked_for_late_and_costs_nothing_otherwise(tmp_path, begin):
    with begin(gpus=[h100(n) for n in range(3)], topology=TOPOLOGY) as pending:
        pending.ask_for(topology=True)
        assert pending.finish(NOBODY).nvlink_domains == ((0, 1),)
    (tmp_path / "calls").unlink()
    found = begin(gpus=[h100(n) for n in range(3)], topology=TOPOLOGY).finish(NOBODY)
    assert (found.nvlink_domains, found.gpus[0].nvlink_peers, found.gpus[0].links) == (None, None, None)
    assert calls(tmp_path) == ["--query-compute-apps", "--query-gpu"]


class TestMig:
    """A card in MIG mode, split into a whole slice and two parts of another one."""

    SLICES = [  # noqa: RUF012 - read only
        mig_slice("1g.10gb", 0, 9984),
        mig_slice("1c.3g.40gb", 1, 40448, instance=2, used=9112),
        mig_slice("2c.3g.40gb", 2, 40448, instance=2, used=9112, pids=[(400, 9000)]),
    ]
    CARD = h100(0, mig_mode_current="Enabled", memory_used=9200)

    def look(self, begin, *, slices=SLICES, card=CARD, processes=((400, 9000),), **node):
        found = [{"gpu": uuid_of(0), "pid": pid, "mib": mib, "name": "serve"} for pid, mib in processes]
        node = {"gpus": [card], "slices": {uuid_of(0): slices}, "processes": found} | node
        return begin(wanted=["slices"], **node).finish(NOBODY).gpus[0]

    def test_the_card_is_not_offered_and_its_slices_are(self, begin, ours):
        ours({400: "chat@0"})
        gpu = self.look(begin)
        assert gpu.health.problems == ("MIG mode is on: not offered as a whole",)
        assert [(p.uuid, p.gpu_class, p.memory_total_mb, p.index) for p in gpu.parts] == [
            (slice_uuid(0), "h100-mig-1g.10gb", 9984, None),
            (slice_uuid(1), "h100-mig-1c.3g.40gb", 40448, None),
            (slice_uuid(2), "h100-mig-2c.3g.40gb", 40448, None),
        ]
        assert all(part.is_healthy and part.capability == (9, 0) and part.mig is None for part in gpu.parts)
        assert [holder.engine for holder in gpu.parts[2].holders] == ["chat@0"]

    def test_a_stranger_is_in_the_way_of_its_slice_alone(self, begin):
        gpu = self.look(begin)
        assert [part.health.problems for part in gpu.parts] == [
            (),
            (),
            (f"9000 MiB held by pid 400 serve{UNSEEN}",),
        ]

    def test_memory_that_nobody_explains_is_told_of_each_part_that_shares_it(self, begin):
        slices = [self.SLICES[0], self.SLICES[1], self.SLICES[2] | {"pids": []}]
        gpu = self.look(begin, slices=slices, processes=())
        unexplained = "9112 MiB held by a process that is not visible"
        assert [part.health.problems for part in gpu.parts] == [(), (unexplained,), (unexplained,)]

    def test_a_process_of_which_the_slice_is_not_known_is_in_the_way_of_all(self, begin):
        gpu = self.look(begin, slices=self.SLICES[:1])
        (problem,) = gpu.parts[0].health.problems
        assert problem.startswith("9000 MiB held by pid 400 serve")
        assert problem.endswith("on its card, on which slice is not known")

    def test_what_is_wrong_with_the_card_is_wrong_with_its_slices(self, begin, ours):
        ours({400: "chat@0"})
        gpu = self.look(begin, card=self.CARD | {"ecc.errors.uncorrected.volatile.total": 1})
        assert {part.health.problems for part in gpu.parts} == {("1 uncorrected ECC error",)}

    def test_in_a_container_that_was_given_slices_alone_they_are_fit(self, begin, ours):
        ours({400: "chat@0"})
        hidden = "[Insufficient Permissions]"
        gpu = self.look(begin, card=self.CARD | {"memory.total": hidden, "memory.used": hidden, "index": 0})
        assert not gpu.is_healthy
        assert all(part.is_healthy for part in gpu.parts)

    def test_another_llmgws_engine_holds_the_slice_that_it_was_given(self, tmp_path, begin, monkeypatch):
        running(tmp_path, 61)
        (tmp_path / "proc/61/cmdline").write_text(f"llmgw: supervisor chat@0 {slice_uuid(0)}\0")
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)
        gpu = self.look(begin, slices=self.SLICES[:2], processes=())
        assert gpu.parts[0].health.problems[0].startswith("given to an engine of another llmgw: pid 61")

    def test_processes_that_could_not_be_read_make_each_slice_unfit(self, begin):
        gpu = self.look(begin, slices=self.SLICES[:1], replies={"--query-compute-apps": {"text": "", "code": 255}})
        assert gpu.parts[0].health.problems == ("the processes of its card could not be read",)

    def test_slices_that_nobody_asked_for_are_not_known(self, begin):
        (gpu,) = begin(gpus=[self.CARD], slices={uuid_of(0): self.SLICES}).finish(NOBODY).gpus
        assert gpu.mig == Mig(enabled=True, slices=None)
        assert gpu.parts == (gpu,)

    def test_a_card_without_slices_stands_for_itself_and_is_unfit(self, begin):
        gpu = self.look(begin, slices=[], processes=())
        assert gpu.mig == Mig(enabled=True, slices=())
        assert gpu.parts == (gpu,)
        assert not gpu.is_healthy


@pytest.mark.parametrize(
    ("name", "mib", "capability", "gpu_class"),
    [("NVIDIA GB10", None, "12.1", "gb10-?"), ("NVIDIA DGX Display", 3911, "7.5", "dgxdisplay-4g")],
    ids=["unified-memory", "a-card-for-displays"],
)
def test_odd_cards_are_cards(begin, name, mib, capability, gpu_class):
    (gpu,) = begin(gpus=[card(0, name, mib, capability, display_active="Enabled")]).finish(NOBODY).gpus
    assert (gpu.gpu_class, gpu.memory_total_mb, gpu.is_healthy, gpu.display) == (gpu_class, mib, True, True)


def test_identity_is_the_uuid_whatever_the_order(begin):
    both = [h100(0), h100(1)]
    renumbered = [both[1] | {"index": 0}, both[0] | {"index": 1}]
    seen = [{gpu.uuid: gpu.pci_bus_id for gpu in begin(gpus=g).finish(NOBODY).gpus} for g in (both, renumbered)]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("value", ["1", uuid_of(1), "", "-1"])
def test_what_cuda_is_told_to_show_makes_no_difference(begin, monkeypatch, value):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert [gpu.index for gpu in begin(gpus=[h100(0), h100(1)]).finish(NOBODY).gpus] == [0, 1]


@pytest.mark.parametrize(
    ("modes", "persistence"),
    [(["Enabled", "Enabled"], True), (["Enabled", "Disabled"], False), (["Enabled", None], None)],
)
def test_persistence_mode_is_that_of_every_card(begin, modes, persistence):
    gpus = [h100(index, persistence_mode=mode) for index, mode in enumerate(modes)]
    assert begin(gpus=gpus).finish(NOBODY).limits.persistence_mode is persistence


def test_a_missing_tool_is_an_error_where_the_driver_has_taken_cards(tmp_path, begin):
    (tmp_path / "sys/bus/pci/drivers/nvidia/0000:17:00.0").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/drivers/nvidia/unbind").touch()
    inventory = begin().finish(NOBODY)
    assert not inventory.gpus_known
    assert inventory.problems[0].message == (
        "cannot read the GPUs: nvidia-smi is not found on PATH, and the driver has 0000:17:00.0"
    )


def test_an_inventory_that_is_given_up_leaves_no_tool_behind(begin):
    with pytest.raises(ValueError, match="the state file is wrong"), begin(hang=True):
        raise ValueError("the state file is wrong")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
