"""Read the limits of the node that hurt an engine later."""

from __future__ import annotations

import os
import pwd
import resource
from collections.abc import Iterable

from llmgw_reconcile.discovery.pci import device_folder, iommu_type
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.inventory import Limits

PORT_RANGE = "sys/net/ipv4/ip_local_port_range"
SHM = "/dev/shm"  # noqa: S108 - looked at, not written
CACHE = ".cache/huggingface/hub"  # below HOME; engines get their account's HOME, and none of the caller's environment


def read_limits(*, proc_root: str = "/proc", shm: str = SHM) -> Limits:
    """The limits as they are now for this user; what cannot be read is None."""
    total, free = _space_mb(shm)
    cache, cache_disk = _model_cache()
    memlock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    return Limits(
        ephemeral_ports=read_ephemeral_ports(proc_root),
        memlock_kb=memlock if memlock == resource.RLIM_INFINITY else memlock // 1024,
        nofile=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        shm_total_mb=total,
        shm_used_mb=None if total is None or free is None else total - free,
        kernel=os.uname().release,
        model_cache=cache,
        model_cache_free_mb=_space_mb(cache_disk)[1],
        model_cache_writable=os.access(cache_disk, os.W_OK),
    )


def read_ephemeral_ports(proc_root: str = "/proc") -> tuple[int, int] | None:
    """First and last port that the kernel gives to outgoing connections (ip(7), ip_local_port_range)."""
    try:
        with open(f"{proc_root}/{PORT_RANGE}") as file:
            first, last = map(int, file.read(100).split())
    except (OSError, ValueError):
        return None
    return first, last


def _model_cache() -> tuple[str, str]:
    """Where engines of this account put what they download, and the nearest folder of it that exists."""
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a uid without an entry, as in some containers
        home = "/"
    there = path = os.path.join(home, CACHE)
    while not os.path.isdir(there) and there != "/":
        there = os.path.dirname(there) or "/"
    return path, there


def iommu_mode(sys: Tree, addresses: Iterable[str | None]) -> str | None:
    """How the IOMMU treats the devices at these PCI addresses; None where sysfs does not tell.

    `translated` sends each transfer between two cards through the IOMMU, `passthrough` does not.
    """
    groups = sys.names("kernel/iommu_groups")
    if not groups:
        return "off" if groups is not None or sys.names("kernel") is not None else None
    types = {iommu_type(sys, device_folder(address)) for address in addresses} - {None}
    if not types:
        return None
    return "passthrough" if types == {"identity"} else "translated"


def _space_mb(path: str) -> tuple[int | None, int | None]:
    """Size, and what this user may still use of it, in MiB."""
    try:
        space = os.statvfs(path)
    except OSError:
        return None, None
    return space.f_blocks * space.f_frsize >> 20, space.f_bavail * space.f_frsize >> 20
