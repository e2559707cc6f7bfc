"""What discovery found on the node."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.rdma import Fabric, RdmaPort

DEFAULT_EPHEMERAL_PORTS = (32768, 60999)  # Linux's default of net.ipv4.ip_local_port_range


class Limits(NamedTuple):
    """Limits of the node that hurt an engine later; unknown is None."""

    ephemeral_ports: tuple[int, int] | None = None
    memlock_kb: int | None = None  # hard limit; -1 is unlimited
    nofile: int | None = None  # hard limit; -1 is unlimited
    shm_total_mb: int | None = None
    shm_used_mb: int | None = None
    kernel: str | None = None
    iommu: str | None = None  # off | passthrough | translated
    persistence_mode: bool | None = None  # on every card
    model_cache: str | None = None  # where engines of this account keep what they download
    model_cache_free_mb: int | None = None
    model_cache_writable: bool | None = None


class Inventory(NamedTuple):
    """GPUs, RDMA ports and limits. `source` "none" is a node without GPUs; a failed discovery is an error instead."""

    node: str
    source: str  # nvidia-smi | nvml | none
    driver_version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[Gpu, ...] = ()
    hcas: tuple[RdmaPort, ...] = ()
    fabric: Fabric = Fabric(kind=None, ports=(), reason="no RDMA adapters were looked for")
    limits: Limits = Limits()
    problems: tuple[Diagnostic, ...] = ()  # an ERROR among them: the GPUs could not be read
    nvlink_domains: tuple[tuple[int, ...], ...] | None = None  # indices; NVLink between any two of one domain

    @property
    def gpus_known(self) -> bool:
        """Whether the list of GPUs can be relied on; if not, nothing may be stopped or placed on its account."""
        return not any(p.code.startswith("nvidia-smi") and p.severity == "error" for p in self.problems)

    def nvlink_domain_of(self, index: int | None) -> tuple[int, ...] | None:
        """The domain of a card, the card alone where it has no NVLink; None where that is not known."""
        if index is None or self.nvlink_domains is None:
            return None
        return next((domain for domain in self.nvlink_domains if index in domain), (index,))
