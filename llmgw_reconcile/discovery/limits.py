"""Read the limits of the node that hurt an engine later."""

from __future__ import annotations

import os
import resource

from llmgw_reconcile.model.inventory import Limits

PORT_RANGE = "sys/net/ipv4/ip_local_port_range"


def read_limits(*, proc_root: str = "/proc", shm: str = "/dev/shm") -> Limits:  # noqa: S108 - looked at, not written
    """The limits as they are now for this user; what cannot be read is None."""
    total, used = _space_mb(shm)
    memlock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    return Limits(
        ephemeral_ports=read_ephemeral_ports(proc_root),
        memlock_kb=memlock if memlock == resource.RLIM_INFINITY else memlock // 1024,
        nofile=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        shm_total_mb=total,
        shm_used_mb=used,
        kernel=os.uname().release,
    )


def read_ephemeral_ports(proc_root: str = "/proc") -> tuple[int, int] | None:
    """First and last port that the kernel gives to outgoing connections (ip(7), ip_local_port_range)."""
    try:
        with open(f"{proc_root}/{PORT_RANGE}") as file:
            first, last = map(int, file.read(100).split())
    except (OSError, ValueError):
        return None
    return first, last


def _space_mb(path: str) -> tuple[int | None, int | None]:
    try:
        space = os.statvfs(path)
    except OSError:
        return None, None
    total, free = space.f_blocks * space.f_frsize, space.f_bfree * space.f_frsize
    return total >> 20, (total - free) >> 20
