"""Say who listens: TCP listeners of this network namespace, by the kernel's socket diagnostics.

sock_diag(7) lists the listening sockets alone, in well under a millisecond; /proc/net/tcp walks the whole table and is
the fall-back. Both show every user's sockets, but the process behind one only to its own user and to root.
"""

from __future__ import annotations

import _socket as socket  # of `socket` only what the kernel gives: a supervisor is to stay small
import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

from llmgw_reconcile.host.proc import socket_inodes

ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - to recognise them
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCP_LISTEN = 10
ANSWER_SECONDS = 2.0
MESSAGE_HEADER = struct.Struct("=IHHII")
LISTENER = struct.Struct("=BBBB2s2s16s16sIII")  # inet_diag_msg up to the interface and cookie
IDS = struct.Struct("=IIIII")  # expires, rqueue, wqueue, uid, inode


class Listener(NamedTuple):
    """One listening socket."""

    address: str
    port: int
    uid: int
    inode: int


def tcp_listeners() -> tuple[Listener, ...]:
    """Every listening TCP socket, IPv4 and IPv6. Raises OSError when neither source can be read."""
    try:
        return tuple(found for family in (socket.AF_INET, socket.AF_INET6) for found in _dump(family))
    except OSError:
        return listeners_by_proc()


def listeners_by_proc() -> tuple[Listener, ...]:
    """The same from /proc/net, where the kernel or a sandbox refuses diagnostics. Raises OSError."""
    found = _from_proc("/proc/net/tcp", socket.AF_INET)
    try:
        found += _from_proc("/proc/net/tcp6", socket.AF_INET6)
    except FileNotFoundError:  # a kernel without IPv6
        pass
    return tuple(found)


def listeners_on(port: int, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
    """Those on a port, whatever the address: a wildcard and a loopback listener answer for the same one."""
    return tuple(listener for listener in listeners if listener.port == port)


def listeners_at(host: str, port: int, listeners: Iterable[Listener]) -> tuple[Listener, ...]:
    """Those that stand in the way of a listener at this address, or that would answer in its place.

    Two addresses of the node share a port in peace, so only the same address and the wildcards count. IPv6's wildcard
    takes IPv4 too unless its owner asked for less, which cannot be seen. A name is any address.
    """
    found = listeners_on(port, listeners)
    wanted = _canonical(host)
    if wanted is None or wanted in ANY_ADDRESS:
        return found
    return tuple(each for each in found if each.address.removeprefix("::ffff:") in (wanted, *ANY_ADDRESS))


def _canonical(host: str) -> str | None:
    """An address as the kernel's are written here; None for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, host))
        except OSError:
            continue
    return None


def owned_inodes(pids: Iterable[int], wanted: frozenset[int]) -> frozenset[int]:
    """Which of the wanted socket inodes these processes hold; stops looking when all are found."""
    found: set[int] = set()
    for pid in pids:
        found |= socket_inodes(pid) & wanted
        if found == wanted:
            break
    return frozenset(found)


def process_behind(inode: int) -> int | None:
    """The pid that holds a socket; None when it is another user's and we are not root. Walks all of /proc."""
    for name in os.listdir("/proc"):
        if name.isdigit() and inode in socket_inodes(int(name)):
            return int(name)
    return None


def _dump(family: int) -> list[Listener]:
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 1 << TCP_LISTEN) + bytes(48)
    head = MESSAGE_HEADER.pack(MESSAGE_HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 1, 0)
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)
    try:
        link.settimeout(ANSWER_SECONDS)
        link.sendto(head + request, (0, 0))
        return _answer(link)
    finally:
        link.close()


def _answer(link: socket.socket) -> list[Listener]:
    found: list[Listener] = []
    while True:
        data, at = link.recv(1 << 18), 0
        while at + MESSAGE_HEADER.size <= len(data):
            length, kind, _, _, _ = MESSAGE_HEADER.unpack_from(data, at)
            if kind == NLMSG_DONE:
                return found
            if kind == NLMSG_ERROR or length < MESSAGE_HEADER.size:
                raise OSError("the kernel refuses socket diagnostics")
            found.append(_listener(data, at + MESSAGE_HEADER.size))
            at += (length + 3) & ~3


def _listener(data: bytes, at: int) -> Listener:
    family, _, _, _, sport, _, source, *_ = LISTENER.unpack_from(data, at)
    _, _, _, uid, inode = IDS.unpack_from(data, at + LISTENER.size)
    address = socket.inet_ntop(family, source[:4] if family == socket.AF_INET else source)
    return Listener(address, int.from_bytes(sport, "big"), uid, inode)


def _from_proc(path: str, family: int) -> list[Listener]:
    found = []
    with open(path, encoding="ascii", errors="replace") as lines:
        for line in list(lines)[1:]:
            fields = line.split()
            if fields[3] != "0A":  # TCP_LISTEN in hexadecimal
                continue
            host, _, port = fields[1].partition(":")
            words = b"".join(bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8))
            found.append(Listener(socket.inet_ntop(family, words), int(port, 16), int(fields[7]), int(fields[9])))
    return found
