"""The ways in which people name a GPU (UUID, PCI address, index) to the card that is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable

from llmgw_reconcile.model.gpu import Gpu

_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")


def find_gpu(name: str, gpus: Iterable[Gpu]) -> Gpu | None:
    """The card of that UUID, PCI address or index; None when there is no such card."""
    wanted = canonical(name)
    return next((gpu for gpu in gpus if wanted in _names(gpu)), None)


def canonical(name: str) -> str:
    """One spelling for each way to name a card: case, and the parts of a PCI address that may be left out.

    nvidia-smi writes eight digits of the domain, lspci four or none.

    >>> canonical("00000000:3B:00.0"), canonical("3b:00"), canonical("gpu-0A"), canonical("3")
    ('0:3b:0.0', '0:3b:0.0', 'gpu-0a', '3')
    """
    text = name.strip().lower()
    if address := _PCI.fullmatch(text):
        domain, bus, device, function = (int(part or "0", 16) for part in address.groups())
        return f"{domain:x}:{bus:x}:{device:x}.{function}"
    return text


def _names(gpu: Gpu) -> frozenset[str]:
    index = None if gpu.index is None else str(gpu.index)
    return frozenset(canonical(name) for name in (gpu.uuid, gpu.pci_bus_id, index) if name)
