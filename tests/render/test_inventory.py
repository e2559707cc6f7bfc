import json
import re
from pathlib import Path

import jsonschema
import pytest

from llmgw_reconcile.discovery.snapshot import world_of
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.gpu import (
    AdapterLink,
    Gpu,
    GpuHealth,
    GpuLink,
    Holder,
    HolderKind,
    Mig,
    MigSlice,
    PcieLink,
)
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.observed import ObservedState
from llmgw_reconcile.model.rdma import Fabric, Gid, RdmaKind, RdmaPort
from llmgw_reconcile.render.inventory import inventory_document
from llmgw_reconcile.render.inventory_text import inventory_text
from llmgw_reconcile.render.snapshot import snapshot_document

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/inventory.schema.json").read_text())

FIT = Gpu(
    index=0,
    uuid="GPU-11111111",
    name="NVIDIA H100 80GB HBM3",
    gpu_class="h100-80g",
    memory_total_mb=81559,
    memory_used_mb=0,
    compute_capability="9.0",
    numa_node=0,
    pci_bus_id="00000000:18:00.0",
    driver_version="550.90.07",
    cuda_version="12.4",
    mig=Mig(enabled=False),
    health=GpuHealth(ecc_errors=0, temperature_c=29),
)
HELD = FIT._replace(
    index=5,
    memory_used_mb=61204,
    numa_node=1,
    health=GpuHealth(2, 35, ("2 uncorrected ECC errors", "61190 MiB held by pid 4121 python of alice")),
    holders=(Holder(4121, "alice", "python", 61190),),
)
OURS = FIT._replace(
    index=1,
    memory_used_mb=70010,
    nvlink_peers=(0,),
    links=(GpuLink(0, 18, PcieLink.PIX), GpuLink(5, 0, PcieLink.SYS)),
    adapters=(AdapterLink("mlx5_0", PcieLink.PIX),),
    display=False,
    holders=(Holder(99, "llm", "VLLM::EngineCore", 70000, "chat@0", HolderKind.OURS),),
)
SPLIT = FIT._replace(
    index=6,
    numa_node=1,
    mig=Mig(
        enabled=True,
        slices=(
            MigSlice("MIG-1", "3g.40gb", 40448, "h100-mig-3g.40gb", 30012, (), OURS.holders),
            MigSlice("MIG-2", "1g.10gb", 9984, "h100-mig-1g.10gb", 9, ("300 MiB held by pid 7",), (Holder(7),)),
            MigSlice("MIG-3", "1g.10gb", None, "h100-mig-1g.10gb"),
        ),
    ),
    health=GpuHealth(0, 30, ("MIG mode is on: not offered as a whole",)),
)
LOST = Gpu(
    index=None,
    uuid=None,
    name=None,
    gpu_class="unknown",
    pci_bus_id="0000:30:00.0",
    health=GpuHealth(problems=("nvidia-smi says: Unable to determine the device handle for GPU0000:30:00.0: Unknown",)),
)
UP = RdmaPort(
    device="mlx5_0",
    port=1,
    kind=RdmaKind.INFINIBAND,
    link_layer="InfiniBand",
    state="ACTIVE",
    phys_state="LinkUp",
    rate_gbps=400.0,
    lid=7,
    sm_lid=1,
    subnet_prefix="fe80:0000:0000:0000",
    netdev="ib0",
    numa_node=0,
    usable=True,
    in_fabric=True,
    gids=(Gid(0, "fe80:0000:0000:0000:b83f:d203:0000:0007"), Gid(1, "fe80::", "RoCE v2", "ib0")),
    pkeys=("0xffff",),
    card="b83f:d203:0000:0007",
    pci_bus_id="0000:19:00.0",
    uverbs="uverbs0",
    near_gpus=(0, 1),
)
DOWN = RdmaPort(
    "mlx5_1", 1, RdmaKind.ROCE, state="DOWN", problems=("its state is DOWN", "its physical state is Disabled")
)
PART = RdmaPort(
    "mlx5_2",
    1,
    RdmaKind.ROCE,
    state="ACTIVE",
    netdev="ens1",
    usable=True,
    bond="bond0",
    physical_function="mlx5_1",
    near_gpus=(),
)
FULL = Inventory(
    node="gpu-07",
    source="nvidia-smi",
    driver_version="550.90.07",
    cuda_version="12.4",
    gpus=(FIT, OURS, HELD, SPLIT, LOST),
    hcas=(UP, DOWN, PART),
    fabric=Fabric(RdmaKind.INFINIBAND, ("mlx5_0:1",), "1 usable InfiniBand port of 400 Gb/s"),
    limits=Limits(
        (32768, 60999), -1, 1048576, 65536, 12, "6.1.0", "passthrough", True, "/home/llm/.cache/hub", 812000, True
    ),
    problems=(Diagnostic(Severity.WARNING, "nvidia-smi-remark", "nvidia-smi", "the tool remarks: hello"),),
    nvlink_domains=((0, 1),),
)
BROKEN = Inventory(
    node="gpu-08",
    source="nvidia-smi",
    problems=(
        Diagnostic(Severity.ERROR, "nvidia-smi-failed", "nvidia-smi", "cannot read the GPUs: exit code 18", "reboot"),
    ),
)
ISLAND = Inventory(node="laptop", source="none", fabric=Fabric(None, (), "no RDMA adapters"))


@pytest.mark.parametrize("inventory", [FULL, BROKEN, ISLAND], ids=["full", "broken", "island"])
def test_the_document_is_what_the_schema_promises(inventory):
    document = json.loads(json.dumps(inventory_document(inventory), allow_nan=False))
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(document, SCHEMA, jsonschema.Draft7Validator)


def test_the_schema_refuses_what_it_does_not_name():
    document = inventory_document(FULL)
    for part in (document, document["gpus"][0], document["gpus"][0]["health"], document["hcas"][0], document["limits"]):
        part["surplus"] = 1
        with pytest.raises(jsonschema.ValidationError, match="surplus"):
            jsonschema.validate(document, SCHEMA, jsonschema.Draft7Validator)
        del part["surplus"]


def test_keys_come_in_the_order_of_the_contract_and_ours_behind_them():
    document = inventory_document(FULL)
    assert " ".join(document) == (
        "format_version node source driver_version cuda_version gpus hcas fabric limits problems nvlink_domains"
    )
    assert " ".join(document["gpus"][0]) == (
        "index uuid name class memory_total_mb memory_used_mb compute_capability numa_node pci_bus_id driver_version"
        " cuda_version nvlink_peers mig health holders links adapters display"
    )
    assert " ".join(document["hcas"][0]) == (
        "device port kind link_layer state phys_state rate_gbps lid sm_lid subnet_prefix netdev numa_node usable"
        " in_fabric problems gids pkeys bond physical_function virtual_functions is_software card pci_bus_id uverbs"
        " near_gpus"
    )


@pytest.mark.parametrize("inventory", [FULL, BROKEN, ISLAND], ids=["full", "broken", "island"])
def test_a_snapshot_gives_back_every_fact(inventory):
    document = json.loads(json.dumps(snapshot_document(inventory, ObservedState(), ())))
    assert world_of(document) == (inventory, ObservedState())


def test_a_snapshot_of_an_older_release_is_read_as_far_as_it_goes():
    document = json.loads(json.dumps(snapshot_document(FULL, ObservedState(), ())))
    found = document["inventory"]
    del found["nvlink_domains"], found["fabric"]["candidates"]
    for gpu in found["gpus"]:
        del gpu["links"], gpu["adapters"], gpu["display"], gpu["health"]["warnings"]
        for holder in gpu["holders"]:
            del holder["kind"]
    for one in found["gpus"][3]["mig"]["slices"]:
        del one["class"], one["memory_used_mb"], one["problems"], one["holders"]
    for port in found["hcas"]:
        for name in list(port)[15:]:
            del port[name]
    inventory, _ = world_of(document)
    assert inventory.gpus[0] == FIT
    assert inventory.gpus[3].mig.slices[0] == MigSlice("MIG-1", "3g.40gb", 40448)
    assert inventory.hcas[1] == DOWN


def test_a_card_is_written_as_the_contract_says():
    assert inventory_document(FULL)["gpus"][2] == {
        "index": 5,
        "uuid": "GPU-11111111",
        "name": "NVIDIA H100 80GB HBM3",
        "class": "h100-80g",
        "memory_total_mb": 81559,
        "memory_used_mb": 61204,
        "compute_capability": "9.0",
        "numa_node": 1,
        "pci_bus_id": "00000000:18:00.0",
        "driver_version": "550.90.07",
        "cuda_version": "12.4",
        "nvlink_peers": None,
        "mig": {"enabled": False, "slices": []},
        "health": {
            "ecc_errors": 2,
            "temperature_c": 35,
            "problems": ["2 uncorrected ECC errors", "61190 MiB held by pid 4121 python of alice"],
            "warnings": [],
        },
        "holders": [
            {
                "pid": 4121,
                "user": "alice",
                "command": "python",
                "memory_mb": 61190,
                "engine": None,
                "kind": "foreign",
            }
        ],
        "links": None,
        "adapters": None,
        "display": None,
    }


def test_what_connects_a_card_is_written_with_it():
    card = inventory_document(FULL)["gpus"][1]
    assert (card["nvlink_peers"], card["adapters"]) == ([0], [{"device": "mlx5_0", "pcie": "PIX"}])
    assert card["links"] == [{"gpu": 0, "nvlinks": 18, "pcie": "PIX"}, {"gpu": 5, "nvlinks": 0, "pcie": "SYS"}]


def test_a_slice_is_written_with_its_class_and_its_holders():
    first, second, third = inventory_document(FULL)["gpus"][3]["mig"]["slices"]
    assert (first["uuid"], first["class"], first["holders"][0]["engine"]) == ("MIG-1", "h100-mig-3g.40gb", "chat@0")
    assert (second["problems"], third["memory_mb"]) == (["300 MiB held by pid 7"], None)


def test_slices_that_could_not_be_read_are_not_called_none():
    split = SPLIT._replace(mig=Mig(enabled=True, slices=None))
    document = inventory_document(ISLAND._replace(gpus=(split,)))
    assert document["gpus"][0]["mig"] == {"enabled": True, "slices": None}
    jsonschema.validate(document, SCHEMA, jsonschema.Draft7Validator)


def test_unknown_is_null_and_never_0():
    lost = inventory_document(FULL)["gpus"][4]
    assert {name for name, value in lost.items() if value is None} == {
        "index",
        "uuid",
        "name",
        "memory_total_mb",
        "memory_used_mb",
        "compute_capability",
        "numa_node",
        "driver_version",
        "cuda_version",
        "nvlink_peers",
        "mig",
        "links",
        "adapters",
        "display",
    }
    assert inventory_document(ISLAND)["fabric"]["kind"] is None


def test_the_text_is_a_table_by_domain_and_socket_with_problems_in_words_below_their_row():
    assert (
        inventory_text(FULL, width=80)
        == """\
gpu-07: 5 GPUs, driver 550.90.07, CUDA 12.4

GPU  CLASS     CAP  USED/MIB  TOTAL/MIB  TEMP  PCI ADDRESS       CONDITION
NVLink domain 0,1, NUMA node 0
0    h100-80g  9.0  0         81559      29 C  00000000:18:00.0  fit
1    h100-80g  9.0  70010     81559      29 C  00000000:18:00.0  in use
      chat@0: 70000 MiB, pid 99
NUMA node 1
5    h100-80g  9.0  61204     81559      35 C  00000000:18:00.0  unfit
      2 uncorrected ECC errors
      61190 MiB held by pid 4121 python of alice
6    h100-80g  9.0  0         81559      30 C  00000000:18:00.0  unfit
      MIG mode is on: not offered as a whole
      h100-mig-3g.40gb  MIG-1  30012 of 40448 MiB used  in use
        chat@0: 70000 MiB, pid 99
      h100-mig-1g.10gb  MIG-2  9 of 9984 MiB used  unfit
        300 MiB held by pid 7
      h100-mig-1g.10gb  MIG-3  - of - MiB used  fit
place not known
-    unknown   -    -         -          -     0000:30:00.0      unfit
      nvidia-smi says: Unable to determine the device handle for
      GPU0000:30:00.0: Unknown

Fabric: infiniband (1 usable InfiniBand port of 400 Gb/s)
PORT      KIND        STATE   GB/S  NUMA  NETDEV  NEAR GPU  FABRIC
mlx5_0:1  infiniband  ACTIVE  400   0     ib0     0,1       yes
mlx5_1:1  roce        DOWN    -     -     -       -         no
      its state is DOWN; its physical state is Disabled
mlx5_2:1  roce        ACTIVE  -     -     ens1    none      no
      part of bond0; virtual function of mlx5_1

Limits: outgoing ports 32768-60999, locked memory unlimited, open files 1048576,
        /dev/shm 12 of 65536 MiB used, 812000 MiB free in /home/llm/.cache/hub,
        IOMMU passthrough, persistence mode on, kernel 6.1.0

warning[nvidia-smi-remark] nvidia-smi: the tool remarks: hello
"""
    )


def gpus_in_words(*gpus, **inventory):
    text = inventory_text(Inventory("n", "nvidia-smi", gpus=gpus, **inventory))
    return text.partition("CONDITION\n")[2].partition("\n\n")[0].splitlines()


def test_one_group_needs_no_heading():
    assert len(gpus_in_words(FIT, FIT._replace(index=1))) == 2


def test_a_board_is_shown_by_its_sockets():
    board = [FIT._replace(index=index, numa_node=index // 2) for index in range(4)]
    lines = gpus_in_words(*board, nvlink_domains=((0, 1, 2, 3),))
    assert (lines[0], lines[3]) == ("NVLink domain 0-3, NUMA node 0", "NVLink domain 0-3, NUMA node 1")


@pytest.mark.parametrize(
    ("gpu", "notes"),
    [
        pytest.param(
            OURS._replace(holders=(OURS.holders[0]._replace(kind=HolderKind.LEFT_OVER),)),
            ["left over", "      chat@0: 70000 MiB, pid 99, left over: its leader is dead"],
            id="left-over",
        ),
        pytest.param(
            FIT._replace(health=GpuHealth(0, 88, (), ("its hardware slows it down, since it is too hot",))),
            ["fit", "      warning: its hardware slows it down, since it is too hot"],
            id="slowed-down",
        ),
        pytest.param(FIT._replace(display=True), ["fit", "      it drives a display"], id="display"),
        pytest.param(
            OURS._replace(holders=(OURS.holders[0]._replace(memory_mb=None),)),
            ["in use", "      chat@0: memory, pid 99"],
            id="unknown-amount",
        ),
    ],
)
def test_what_is_worth_knowing_stands_below_the_card(gpu, notes):
    line, *below = gpus_in_words(gpu)
    assert [line.split("  ")[-1], *below] == notes


def test_a_fabric_that_nothing_decides_is_not_called_an_island():
    fabric = Fabric(None, (), "undecided: a:1 and b:1 are equal", (("a:1",), ("b:1",)))
    text = inventory_text(ISLAND._replace(fabric=fabric))
    assert "Fabric: not decided (undecided: a:1 and b:1 are equal)\n" in text


def test_gpus_that_could_not_be_read_are_not_called_none():
    text = inventory_text(BROKEN)
    assert text.startswith("gpu-08: the GPUs are not known\n")
    assert "error[nvidia-smi-failed] nvidia-smi: cannot read the GPUs: exit code 18\n  hint: reboot\n" in text


def test_an_island_without_gpus_is_calm():
    assert (
        inventory_text(ISLAND, width=80)
        == """\
laptop: no GPUs (there is no nvidia-smi)

Fabric: none, this node is an island (no RDMA adapters)

Limits: outgoing ports -, locked memory -, open files -, /dev/shm - of - MiB
        used, - MiB free in the model cache, IOMMU -, persistence mode -, kernel
        -
"""
    )


def test_locked_memory_has_its_unit():
    text = inventory_text(ISLAND._replace(limits=Limits(memlock_kb=8192)))
    assert "locked memory 8192 KiB, " in text


def test_colour_is_only_added():
    colored = inventory_text(FULL, width=80, color=True)
    assert "\x1b[32mfit\x1b[0m" in colored
    assert re.sub(r"\x1b\[\d*m", "", colored) == inventory_text(FULL, width=80)


def test_without_a_width_nothing_is_wrapped():
    assert max(map(len, inventory_text(FULL).splitlines())) > 100
