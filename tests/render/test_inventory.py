import json
from pathlib import Path

import jsonschema
import pytest

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.gpu import Gpu, GpuHealth, Holder, Mig, MigSlice
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.rdma import Fabric, RdmaKind, RdmaPort
from llmgw_reconcile.render.inventory import inventory_document, inventory_text

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
    nvlink_peers=(0, 1),
    mig=Mig(enabled=True, slices=(MigSlice("MIG-1", "3g.40gb", 40448),)),
    health=GpuHealth(2, 35, ("2 uncorrected ECC errors", "61190 MiB held by pid 4121 python of alice")),
    holders=(Holder(4121, "alice", "python", 61190),),
)
OURS = FIT._replace(index=1, memory_used_mb=70010, holders=(Holder(99, "llm", "VLLM::EngineCore", 70000, "chat@0"),))
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
)
DOWN = RdmaPort(
    "mlx5_1", 1, RdmaKind.ROCE, state="DOWN", problems=("its state is DOWN", "its physical state is Disabled")
)
FULL = Inventory(
    node="gpu-07",
    source="nvidia-smi",
    driver_version="550.90.07",
    cuda_version="12.4",
    gpus=(FIT, OURS, HELD, LOST),
    hcas=(UP, DOWN),
    fabric=Fabric(RdmaKind.INFINIBAND, ("mlx5_0:1",), "1 usable InfiniBand port of 400 Gb/s"),
    limits=Limits((32768, 60999), -1, 1048576, 65536, 12, "6.1.0"),
    problems=(Diagnostic(Severity.WARNING, "nvidia-smi-remark", "nvidia-smi", "the tool remarks: hello"),),
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


def test_keys_come_in_the_order_of_the_contract():
    document = inventory_document(FULL)
    assert " ".join(document) == (
        "format_version node source driver_version cuda_version gpus hcas fabric limits problems"
    )
    assert " ".join(document["gpus"][0]) == (
        "index uuid name class memory_total_mb memory_used_mb compute_capability numa_node pci_bus_id driver_version"
        " cuda_version nvlink_peers mig health holders"
    )
    assert " ".join(document["hcas"][0]) == (
        "device port kind link_layer state phys_state rate_gbps lid sm_lid subnet_prefix netdev numa_node usable"
        " in_fabric problems"
    )


def test_a_card_is_written_as_the_contract_says():
    assert inventory_document(FULL)["gpus"][2] == {
        "index": 5,
        "uuid": "GPU-11111111",
        "name": "NVIDIA H100 80GB HBM3",
        "class": "h100-80g",
        "memory_total_mb": 81559,
        "memory_used_mb": 61204,
        "compute_capability": "9.0",
        "numa_node": 0,
        "pci_bus_id": "00000000:18:00.0",
        "driver_version": "550.90.07",
        "cuda_version": "12.4",
        "nvlink_peers": [0, 1],
        "mig": {"enabled": True, "slices": [{"uuid": "MIG-1", "profile": "3g.40gb", "memory_mb": 40448}]},
        "health": {
            "ecc_errors": 2,
            "temperature_c": 35,
            "problems": ["2 uncorrected ECC errors", "61190 MiB held by pid 4121 python of alice"],
        },
        "holders": [{"pid": 4121, "user": "alice", "command": "python", "memory_mb": 61190, "engine": None}],
    }


def test_unknown_is_null_and_never_0():
    lost = inventory_document(FULL)["gpus"][3]
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
    }
    assert inventory_document(ISLAND)["fabric"]["kind"] is None


def test_the_text_is_a_table_with_problems_in_words_below_their_row():
    assert (
        inventory_text(FULL, width=80)
        == """\
gpu-07: 4 GPUs, driver 550.90.07, CUDA 12.4

GPU  CLASS     CAP  USED/MIB  TOTAL/MIB  TEMP  PCI ADDRESS       CONDITION
0    h100-80g  9.0  0         81559      29 C  00000000:18:00.0  fit
1    h100-80g  9.0  70010     81559      29 C  00000000:18:00.0  in use
      chat@0: 70000 MiB, pid 99
5    h100-80g  9.0  61204     81559      35 C  00000000:18:00.0  unfit
      2 uncorrected ECC errors
      61190 MiB held by pid 4121 python of alice
-    unknown   -    -         -          -     0000:30:00.0      unfit
      nvidia-smi says: Unable to determine the device handle for
      GPU0000:30:00.0: Unknown

Fabric: infiniband (1 usable InfiniBand port of 400 Gb/s)
PORT      KIND        STATE   GB/S  NUMA  NETDEV  FABRIC
mlx5_0:1  infiniband  ACTIVE  400   0     ib0     yes
mlx5_1:1  roce        DOWN    -     -     -       no
      its state is DOWN; its physical state is Disabled

Limits: outgoing ports 32768-60999, locked memory unlimited, open files 1048576,
        /dev/shm 12 of 65536 MiB used, kernel 6.1.0

warning[nvidia-smi-remark] nvidia-smi: the tool remarks: hello
"""
    )


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
        used, kernel -
"""
    )


def test_locked_memory_has_its_unit():
    text = inventory_text(ISLAND._replace(limits=Limits(memlock_kb=8192)))
    assert "locked memory 8192 KiB, " in text


def test_colour_is_only_added():
    import re

    colored = inventory_text(FULL, width=80, color=True)
    assert "\x1b[32mfit\x1b[0m" in colored
    assert re.sub(r"\x1b\[\d*m", "", colored) == inventory_text(FULL, width=80)


def test_without_a_width_nothing_is_wrapped():
    assert max(map(len, inventory_text(FULL).splitlines())) > 100
