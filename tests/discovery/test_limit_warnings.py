import pytest

from llmgw_reconcile.discovery.limit_warnings import warn_of_limits
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.rdma import RdmaKind, RdmaPort

AMPLE = Limits((32768, 60999), -1, -1, 65536, 0, "6.8", "off", True, "/home/llm/.cache", 900_000, True)
GPUS = tuple(Gpu(index, f"GPU-{index}", "NVIDIA L40S", "l40s-45g") for index in range(2))
PORT = RdmaPort("mlx5_0", 1, RdmaKind.INFINIBAND, usable=True)


def warnings(hcas=(), gpus=GPUS, **limits):
    inventory = Inventory("gpu-07", "nvidia-smi", gpus=gpus, hcas=hcas, limits=AMPLE._replace(**limits))
    return [(found.severity, found.code, found.message) for found in warn_of_limits(inventory)]


def test_an_ample_node_gets_no_warning_and_an_unknown_one_neither():
    assert warnings([PORT]) == []
    assert warn_of_limits(Inventory("gpu-07", "nvidia-smi", gpus=GPUS, hcas=(PORT,))) == ()


@pytest.mark.parametrize(
    ("node", "code", "message"),
    [
        pytest.param(
            {"memlock_kb": 64, "hcas": [PORT]},
            "low-memlock",
            "locked memory is limited to 64 KiB: engines cannot register memory with the RDMA adapters",
            id="locked-memory-with-adapters",
        ),
        pytest.param(
            {"nofile": 1024},
            "low-nofile",
            "open files are limited to 1024: engines fail under load, or with many ranks at once",
            id="open-files",
        ),
        pytest.param(
            {"shm_total_mb": 64},
            "low-shm",
            "/dev/shm has 64 of 64 MiB free: engines on several GPUs cannot share memory",
            id="the-shm-of-a-container",
        ),
        pytest.param(
            {"shm_used_mb": 65500},
            "low-shm",
            "/dev/shm has 36 of 65536 MiB free: engines on several GPUs cannot share memory",
            id="a-full-shm",
        ),
        pytest.param(
            {"model_cache_free_mb": 800},
            "model-cache",
            "/home/llm/.cache has 800 MiB free: few models fit",
            id="a-full-disk",
        ),
        pytest.param(
            {"model_cache_writable": False},
            "model-cache",
            "/home/llm/.cache is not writable: nothing can be downloaded to it",
            id="a-cache-of-somebody-else",
        ),
        pytest.param(
            {"iommu": "translated"},
            "iommu",
            "the IOMMU translates transfers between GPUs: they are slow, or hang when NCCL tries them",
            id="the-iommu",
        ),
    ],
)
def test_what_a_real_launch_would_suffer_from_is_a_warning(node, code, message):
    assert warnings(**node) == [("warning", code, message)]


@pytest.mark.parametrize(
    "node",
    [
        pytest.param({"memlock_kb": 64}, id="locked-memory-without-adapters"),
        pytest.param({"memlock_kb": 64, "hcas": [PORT._replace(usable=False)]}, id="with-adapters-of-no-use"),
        pytest.param({"shm_total_mb": 64, "gpus": GPUS[:1]}, id="shm-of-a-single-gpu"),
        pytest.param({"iommu": "translated", "gpus": GPUS[:1]}, id="the-iommu-of-a-single-gpu"),
        pytest.param({"iommu": "passthrough", "persistence_mode": False}, id="facts-that-hurt-nobody"),
    ],
)
def test_a_limit_that_nobody_runs_into_is_a_mere_fact(node):
    assert warnings(**node) == []
