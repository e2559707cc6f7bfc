"""A card is found under every name that people and tools give it."""

from __future__ import annotations

import pytest

from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.placement.identify import find_gpu
from tests.fakes.placed import gpu

CARDS = (
    gpu(0, uuid="GPU-0a1b2c3d-1111-4222-8333-000000000000", pci_bus_id="00000000:3B:00.0"),
    gpu(1, uuid="GPU-12345678-1111-4222-8333-000000000001", pci_bus_id="00000001:3B:00.0"),
    Gpu(index=None, uuid=None, name=None, gpu_class="unknown", pci_bus_id="00000000:AF:00.0"),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("GPU-0a1b2c3d-1111-4222-8333-000000000000", 0, id="uuid"),
        pytest.param("gpu-0A1B2C3D-1111-4222-8333-000000000000", 0, id="uuid-in-another-case"),
        pytest.param("1", 1, id="index"),
        pytest.param("00000000:3B:00.0", 0, id="as-nvidia-smi-writes-it"),
        pytest.param("0000:3b:00.0", 0, id="as-lspci-writes-it"),
        pytest.param("3b:00.0", 0, id="without-the-domain"),
        pytest.param("3b:00", 0, id="without-the-function"),
        pytest.param("0001:3b:00.0", 1, id="in-another-domain"),
        pytest.param("0000:af:00.0", 2, id="a-lost-card-by-its-address"),
    ],
)
def test_a_name_finds_its_card(name: str, expected: int) -> None:
    assert find_gpu(name, CARDS) is CARDS[expected]


@pytest.mark.parametrize("name", ["2", "GPU-0a1b2c3d", "0000:3b:00.1", "0002:3b:00.0", "", "unknown"])
def test_a_name_of_nothing_finds_nothing(name: str) -> None:
    assert find_gpu(name, CARDS) is None
