"""Turn the tables of an RDMA port in sysfs into its addresses and partition keys; free entries are left out.

A free entry of the GID table reads as zeros, and its attributes fail with EINVAL; so they do for an interface that is
in another network namespace. On InfiniBand the attributes fail throughout.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.rdma import Gid

TABLE_LIMIT = 1024  # entries that are read of one table
GID = re.compile(r"([0-9a-f]{4}:){7}[0-9a-f]{4}")
UNUSED = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:"
PKEY = re.compile(r"0x[0-9a-fA-F]{4}")
PKEY_UNUSED = "0x0000"
ROCE_V2 = "RoCE v2"


class GidTable(NamedTuple):
    """The addresses in use; `has_free` says whether entries without one were seen."""

    gids: tuple[Gid, ...]
    has_free: bool

    @property
    def netdev(self) -> str | None:
        """The network interface of the first address that tells one."""
        return next((gid.netdev for gid in self.gids if gid.netdev), None)

    def problem(self) -> str:
        """Why RoCE packets could not leave, or nothing: they do so with the address of a GID.

        A table without a free entry was not read whole, and says nothing.
        """
        routable = [gid for gid in self.gids if not gid.gid.startswith(LINK_LOCAL)]
        if routable:
            kinds = {gid.kind for gid in routable}
            return "" if kinds & {ROCE_V2, None} else "its network interface has an address for RoCE v1 only"
        if not self.has_free:
            return ""
        if self.gids:
            return "its network interface has no address"
        return "it has no GID: its network interface is in another network namespace, or down"


def read_gids(sys: Tree, folder: str) -> GidTable:
    """The GID table of a port by its folder."""
    gids = []
    has_free = False
    for index in _indices(sys, f"{folder}/gids"):
        gid = one_line(sys.text(f"{folder}/gids/{index}") or "").lower()
        if gid == UNUSED:
            has_free = True
        elif GID.fullmatch(gid):
            attributes = (_attribute(sys, f"{folder}/gid_attrs/{name}/{index}") for name in ("types", "ndevs"))
            gids.append(Gid(index, gid, *attributes))
    return GidTable(tuple(gids), has_free)


def read_pkeys(sys: Tree, folder: str) -> tuple[str, ...]:
    """The partition keys in use; without the top bit it is a limited membership."""
    texts = (sys.text(f"{folder}/pkeys/{index}") or "" for index in _indices(sys, f"{folder}/pkeys"))
    pkeys = (text.strip().lower() for text in texts)
    return tuple(dict.fromkeys(pkey for pkey in pkeys if PKEY.fullmatch(pkey) and pkey != PKEY_UNUSED))


def _indices(sys: Tree, folder: str) -> list[int]:
    names = sys.names(folder) or ()
    return sorted(int(name) for name in names if re.fullmatch(r"[0-9]{1,4}", name))[:TABLE_LIMIT]


def _attribute(sys: Tree, name: str) -> str | None:
    text = sys.text(name)
    return one_line(text) or None if text else None
