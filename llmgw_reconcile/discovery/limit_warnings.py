"""Turn an inventory into warnings: where a real launch on this node would fail, or run badly, for its limits."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.inventory import Inventory

UNLIMITED = -1
# Registering memory with an adapter locks it: buffers of a few hundred MiB for each GPU.
ENOUGH_MEMLOCK_KB = 8 << 20
ENOUGH_FILES = 8192  # an engine of eight ranks needs more than the usual soft limit of 1024
ENOUGH_SHM_MB = 1024  # NCCL puts some 30 MiB there for each rank, engines their queues; containers get 64 MiB
FREE_SHM_MB = 256
CHOWN = "make it the property of the account that engines run as"
ENOUGH_DISK_MB = 10 << 10  # few models are smaller


def warn_of_limits(inventory: Inventory) -> tuple[Diagnostic, ...]:
    """All warnings, in a fixed order; what is not known gives none."""
    found = [*_memlock(inventory), *_files(inventory), *_shm(inventory), *_cache(inventory), *_iommu(inventory)]
    return tuple(Diagnostic(Severity.WARNING, code, inventory.node, message, hint) for code, message, hint in found)


def _memlock(inventory: Inventory) -> Iterator[tuple[str, str, str]]:
    limit = inventory.limits.memlock_kb
    if limit not in (None, UNLIMITED) and limit < ENOUGH_MEMLOCK_KB and any(port.usable for port in inventory.hcas):
        message = f"locked memory is limited to {limit} KiB: engines cannot register memory with the RDMA adapters"
        yield "low-memlock", message, "`LimitMEMLOCK=infinity` in the unit, `memlock unlimited` in limits.conf"


def _files(inventory: Inventory) -> Iterator[tuple[str, str, str]]:
    limit = inventory.limits.nofile
    if limit not in (None, UNLIMITED) and limit < ENOUGH_FILES:
        message = f"open files are limited to {limit}: engines fail under load, or with many ranks at once"
        yield "low-nofile", message, "`LimitNOFILE=1048576` in the unit, `nofile` in limits.conf"


def _shm(inventory: Inventory) -> Iterator[tuple[str, str, str]]:
    total, used = inventory.limits.shm_total_mb, inventory.limits.shm_used_mb
    if total is None or used is None or len(inventory.gpus) < 2:
        return
    if total < ENOUGH_SHM_MB or total - used < FREE_SHM_MB:
        message = f"/dev/shm has {total - used} of {total} MiB free: engines on several GPUs cannot share memory"  # noqa: S108
        yield "low-shm", message, "`mount -o remount,size=16G /dev/shm`; a container is started with `--shm-size`"


def _cache(inventory: Inventory) -> Iterator[tuple[str, str, str]]:
    limits = inventory.limits
    if limits.model_cache_writable is False:
        yield "model-cache", f"{limits.model_cache} is not writable: nothing can be downloaded to it", CHOWN
    elif limits.model_cache_free_mb is not None and limits.model_cache_free_mb < ENOUGH_DISK_MB:
        message = f"{limits.model_cache} has {limits.model_cache_free_mb} MiB free: few models fit"
        yield "model-cache", message, "set HF_HOME in `env:` to a folder on a larger disk"


def _iommu(inventory: Inventory) -> Iterator[tuple[str, str, str]]:
    if inventory.limits.iommu == "translated" and len(inventory.gpus) > 1:
        message = "the IOMMU translates transfers between GPUs: they are slow, or hang when NCCL tries them"
        yield "iommu", message, "boot with `iommu=pt`; in a virtual machine ask for it on the host"
