"""Builders of models, GPUs and placements that leave out what a test is not about."""

from __future__ import annotations

from typing import Any

from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.model.gpu import Gpu, GpuHealth
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.spec import EngineSpec, engines_of

H100 = ("NVIDIA H100 80GB HBM3", "h100-80g", 81559, "9.0")
A100 = ("NVIDIA A100-SXM4-80GB", "a100-80g", 81920, "8.0")
T4 = ("Tesla T4", "t4-15g", 15360, "7.5")
V100 = ("Tesla V100-SXM2-32GB", "v100-32g", 32768, "7.0")
L40S = ("NVIDIA L40S", "l40s-45g", 46068, "8.9")

Card = tuple[str, str, int, str]


def a_model(name: str = "chat", **fields: Any) -> ModelSpec:
    """A vLLM model of a hub id; its served name is its name, as after loading."""
    given = {"model": "org/model", "engine": EngineKind.VLLM, "served_model_name": (name,), **fields}
    return ModelSpec(name=name, where="node.yaml:3:5", **given)


def a_spec(name: str = "chat", *, replica: int = 0, **fields: Any) -> EngineSpec:
    """One engine of such a model."""
    fields.setdefault("replicas", replica + 1)
    return engines_of(a_model(name, **fields))[replica]


def gpu(index: int, card: Card = H100, *problems: str, **fields: Any) -> Gpu:
    """`GPU-<index>` at the PCI address 00000000:<10 + index>:00.0."""
    name, gpu_class, memory, capability = card
    known = {
        "uuid": f"GPU-{index}",
        "pci_bus_id": f"00000000:{0x10 + index:02X}:00.0",
        "memory_total_mb": memory,
        "compute_capability": capability,
        "health": GpuHealth(problems=problems),
        **fields,
    }
    return Gpu(index=index, name=name, gpu_class=gpu_class, **known)


def a_node(*gpus: Gpu, **fields: Any) -> Inventory:
    """A node whose GPUs are known."""
    return Inventory(node="gpu-07", source="nvidia-smi", gpus=gpus, **fields)


def h100s(count: int) -> Inventory:
    """A node of healthy H100s."""
    return a_node(*(gpu(index) for index in range(count)))


def a_placement(*gpus: Gpu, executable: str = "/opt/engine/bin/engine", port: int = 8000, **fields: Any) -> Placement:
    """A placement of `a_model(**fields)` on these GPUs."""
    return Placement(a_spec(**fields), gpus, port, executable)
