"""Interfaces, addresses and names, from the forms in which the kernel and the resolver give them."""

from __future__ import annotations

import socket
import struct

import pytest

from llmgw_reconcile.discovery.interfaces import (
    is_address,
    parse_ifconf,
    parse_inet6,
    read_interfaces,
    resolve_names,
)

INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
fe800000000000000a0027fffe123456 02 40 20 80     eth0
fd000000000000000000000000000007 03 40 00 80    bond0
no line of this table
"""


def record(name: bytes, *address: int) -> bytes:
    return struct.pack("16sHH4s16x", name, socket.AF_INET, 0, bytes(address))


def test_each_record_of_the_kernel_is_an_address_of_an_interface() -> None:
    data = record(b"lo", 127, 0, 0, 1) + record(b"bond0", 10, 1, 0, 7) + record(b"bond0:1", 10, 2, 0, 7)
    assert parse_ifconf(data) == (("lo", "127.0.0.1"), ("bond0", "10.1.0.7"), ("bond0", "10.2.0.7"))


def test_a_name_may_fill_its_field() -> None:
    assert parse_ifconf(record(b"enp129s0f0np123\0", 10, 0, 0, 1)) == (("enp129s0f0np123", "10.0.0.1"),)


def test_addresses_of_one_link_lead_to_no_other_node() -> None:
    assert parse_inet6(INET6) == (("lo", "::1"), ("bond0", "fd00::7"))


def test_the_loopback_interface_of_this_machine_is_found() -> None:
    (loopback,) = [one for one in read_interfaces() if one.name == "lo"]
    assert loopback.addresses[0] == "127.0.0.1"
    assert loopback.is_running


def test_a_node_without_ipv6_has_its_other_addresses(tmp_path) -> None:
    (loopback,) = [one for one in read_interfaces(proc_root=str(tmp_path)) if one.name == "lo"]
    assert loopback.addresses == ("127.0.0.1",)


def test_an_address_stands_for_itself_and_an_impossible_name_for_nothing() -> None:
    names = ["127.0.0.1", "::1", "no-such-host.invalid", "a" * 70]
    assert resolve_names(names, seconds=30) == {
        "127.0.0.1": ("127.0.0.1",),
        "::1": ("::1",),
        "no-such-host.invalid": (),
        "a" * 70: (),
    }


def test_a_resolver_that_takes_too_long_is_not_waited_for() -> None:
    assert resolve_names(["no-such-host.invalid"], seconds=0.0) == {"no-such-host.invalid": ()}


@pytest.mark.parametrize(
    ("name", "expected"), [("10.0.0.7", True), ("fd00::7", True), ("gpu-07", False), ("10.0.0", False), ("", False)]
)
def test_what_an_address_is(name: str, expected: bool) -> None:
    assert is_address(name) is expected
