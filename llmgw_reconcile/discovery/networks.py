"""Turn the kernel's routes and mounts into what network interfaces serve: management or storage.

Evidence for the choice of a fabric, and no proof: the adapter that carries the default route is how people reach the
node, and one whose network has a file server is how files reach it. IPv4 only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from llmgw_reconcile.host.tree import Tree

READ_LIMIT = 1 << 20  # bytes of one table
FLAG_UP, FLAG_GATEWAY = 0x1, 0x2  # RTF_UP and RTF_GATEWAY of route(4)
REMOTE_TYPES = re.compile(r"nfs\d?|cifs|smb3|lustre|ceph|beegfs|wekafs|9p")
ADDRESS = re.compile(r"(?<![\d.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?![\d.])")
ADDRESS_OPTION = re.compile(r"(?:^|,)addr=([^,]+)")


class Services(NamedTuple):
    """Interfaces by what speaks for their serving something else than the traffic between engines."""

    management: frozenset[str] = frozenset()  # they carry a default route
    storage: frozenset[str] = frozenset()  # the server of a mount is in their network

    def of(self, interfaces: tuple[str | None, ...]) -> str:
        """What one of these interfaces serves, in words; empty when nothing speaks for anything. VLANs count."""
        for words, names in (("carries the default route", self.management), ("reaches a file server", self.storage)):
            if any(name.partition(".")[0] in interfaces or name in interfaces for name in names):
                return words
        return ""


class Route(NamedTuple):
    """A network that an interface is in, or a default route (both numbers 0)."""

    interface: str
    network: int
    mask: int


def read_services(proc: Tree) -> Services:
    """The services as far as /proc tells; empty sets where it does not."""
    routes = tuple(_routes(proc.text("net/route", READ_LIMIT) or ""))
    servers = tuple(_servers(proc.text("mounts", READ_LIMIT) or ""))
    return Services(
        management=frozenset(route.interface for route in routes if not route.mask),
        storage=frozenset(
            route.interface
            for route in routes
            if route.mask and any(server & route.mask == route.network for server in servers)
        ),
    )


def _routes(text: str) -> Iterator[Route]:
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or not all(re.fullmatch(r"[0-9A-Fa-f]{1,8}", fields[at]) for at in (1, 3, 7)):
            continue
        route = Route(fields[0], _number(fields[1]), _number(fields[7]))
        flags = int(fields[3], 16)
        is_default = not route.mask and not route.network
        if flags & FLAG_UP and (is_default or (route.mask and not flags & FLAG_GATEWAY)):
            yield route


def _number(word: str) -> int:
    """The kernel prints an address as a number of this machine's byte order."""
    return int.from_bytes(int(word, 16).to_bytes(4, sys.byteorder), "big")


def _servers(text: str) -> Iterator[int]:
    """Addresses in the source of a mount, such as `10.2.0.5:/models`, and in the option that holds the resolved one."""
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 3 and REMOTE_TYPES.fullmatch(fields[2].removeprefix("fuse.")):
            for text in (fields[0], *ADDRESS_OPTION.findall(fields[3])):
                for parts in ADDRESS.findall(text):
                    if all(int(part) < 256 for part in parts):
                        yield int.from_bytes(bytes(map(int, parts)), "big")
