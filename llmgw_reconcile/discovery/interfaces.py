"""Read which network interfaces this node has with which addresses, and what names stand for.

Addresses come from netdevice(7)'s ioctls (IPv4) and /proc/net/if_inet6; all are of this process's network namespace,
and so of its engines'.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
from collections.abc import Iterable

from llmgw_reconcile.model.group import Interface

RESOLVE_SECONDS = 3.0  # for all names together: they are looked up side by side

SIOCGIFCONF = 0x8912  # every IPv4 address with its interface
SIOCGIFFLAGS = 0x8913
IFF_UP, IFF_RUNNING = 0x1, 0x40
IFREQ = struct.Struct("16s16s8x")  # name, and a sockaddr_in or flags
MOST_ADDRESSES = 4096


def read_interfaces(*, proc_root: str = "/proc") -> tuple[Interface, ...]:
    """Every interface in the kernel's order. One without an address has none; an unreadable node has no interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            names = [name for _, name in socket.if_nameindex()]
            addresses = [*parse_ifconf(_ifconf(any_socket)), *_inet6(proc_root)]
        except OSError:
            return ()
        return tuple(
            Interface(name, tuple(found for owner, found in addresses if owner == name), _is_running(any_socket, name))
            for name in names
        )


def parse_ifconf(data: bytes) -> tuple[tuple[str, str], ...]:
    """Interface and IPv4 address of each record that SIOCGIFCONF wrote. An alias (`eth0:1`) is its interface's."""
    found = []
    for name, address in IFREQ.iter_unpack(data):
        interface = name.partition(b"\0")[0].decode("utf-8", "replace").partition(":")[0]
        found.append((interface, socket.inet_ntop(socket.AF_INET, address[4:8])))
    return tuple(found)


def parse_inet6(text: str) -> tuple[tuple[str, str], ...]:
    """Interface and IPv6 address of each line of /proc/net/if_inet6, without those that hold on one link only."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 6 and len(fields[0]) == 32 and not fields[0].startswith("fe80"):
            found.append((fields[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))))
    return tuple(found)


def resolve_names(names: Iterable[str], *, seconds: float = RESOLVE_SECONDS) -> dict[str, tuple[str, ...]]:
    """The IP addresses that each name or address stands for here, IPv4 first; none where it does not resolve in time.

    The resolver has no bound of its own, so each look-up has a thread, which is left behind when time is up.
    """
    import threading
    import time

    found: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    answers: dict[str, tuple[str, ...]] = {}  # whoever comes late writes here, where nobody looks any more

    def look_up(name: str) -> None:
        answers[name] = _resolve(name)

    threads = [threading.Thread(target=look_up, args=(name,), daemon=True) for name in found]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return {name: answers.get(name, ()) for name in found}


def is_address(name: str) -> bool:
    """Whether it is an IP address rather than a name.

    >>> is_address("10.0.0.7"), is_address("fd00::7"), is_address("gpu-07")
    (True, True, False)
    """
    return any(_is_of(family, name) for family in (socket.AF_INET, socket.AF_INET6))


def _is_of(family: int, name: str) -> bool:
    try:
        socket.inet_pton(family, name)
    except OSError:
        return False
    return True


def _resolve(name: str) -> tuple[str, ...]:
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    by_family = sorted(answers, key=lambda answer: answer[0] != socket.AF_INET)
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in by_family))


def _ifconf(any_socket: socket.socket) -> bytes:
    """What SIOCGIFCONF answers: a buffer of ours is filled, and its length put back."""
    import ctypes

    buffer = ctypes.create_string_buffer(MOST_ADDRESSES * IFREQ.size)
    request = struct.pack("iL", len(buffer), ctypes.addressof(buffer))
    length, _ = struct.unpack("iL", fcntl.ioctl(any_socket, SIOCGIFCONF, request))
    return buffer.raw[:length]


def _is_running(any_socket: socket.socket, name: str) -> bool:
    try:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, IFREQ.pack(name.encode(), b""))
    except OSError:
        return False
    flags = int.from_bytes(answer[16:18], sys.byteorder)
    return flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING


def _inet6(proc_root: str) -> tuple[tuple[str, str], ...]:
    try:
        with open(f"{proc_root}/net/if_inet6", encoding="ascii", errors="replace") as file:
            return parse_inet6(file.read(1 << 20))
    except OSError:
        return ()  # IPv6 is switched off
