"""Say on what a directory lies: the kind of its file system, and how much of it is free."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

MOUNTS_LIMIT = 4 << 20
VOLATILE = frozenset({"tmpfs", "ramfs"})
SHARED = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "gpfs", "beegfs", "glusterfs", "9p", "fuse.sshfs"})


class Disk(NamedTuple):
    """What a path is on; None where that is not known."""

    kind: str | None = None  # as mount(8) has it: "ext4", "tmpfs"
    free_mb: int | None = None


def disk_of(path: str, mounts: str = "/proc/self/mounts") -> Disk:
    """The disk of a path, or of the nearest folder above it that exists."""
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path) or "/"
    try:
        space = os.statvfs(path)
    except OSError:
        return Disk()
    return Disk(_kind(os.path.realpath(path), mounts), space.f_bavail * space.f_frsize >> 20)


def _kind(path: str, mounts: str) -> str | None:
    """The type of the innermost mount that the path lies below; of two on one place the later one hides the other."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            lines = file.read(MOUNTS_LIMIT).splitlines()
    except OSError:
        return None
    best, kind = -1, None
    for line in lines:
        fields = line.split()
        place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1]) if len(fields) > 2 else ""
        below = place.rstrip("/") + "/"
        if place and f"{path}/".startswith(below) and len(below) >= best:
            best, kind = len(below), fields[2]
    return kind
