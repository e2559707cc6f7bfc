"""Who listens, by real sockets."""

from __future__ import annotations

import os
import socket

import pytest

from llmgw_reconcile.host import sockets
from llmgw_reconcile.host.sockets import Listener, listeners_at, listeners_on, owned_inodes, process_behind
from tests.fakes.procs import free_port
from tests.fakes.users import NOBODY, root_only, told_as


def inode_of(listener: socket.socket) -> int:
    return os.fstat(listener.fileno()).st_ino


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


ADDRESSES = [
    "127.0.0.1",
    "0.0.0.0",
    pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")),
    pytest.param("::", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")),
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("source", [sockets.tcp_listeners, sockets.listeners_by_proc], ids=["sock_diag", "proc-net"])
def test_a_listener_is_found_with_address_owner_and_inode(address: str, source: object) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    port = free_port()
    with socket.create_server((address, port), family=family) as server:
        expected = Listener(address, port, os.geteuid(), inode_of(server))
        assert listeners_on(port, source()) == (expected,)  # type: ignore[operator]


@pytest.mark.parametrize("source", [sockets.tcp_listeners, sockets.listeners_by_proc], ids=["sock_diag", "proc-net"])
def test_bound_and_connected_sockets_do_not_listen(source: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as bound:
        bound.bind(("127.0.0.1", free_port()))
        with socket.create_connection(server.getsockname()) as client:
            found = {listener.inode for listener in source()}  # type: ignore[operator]
            assert inode_of(server) in found
            assert inode_of(bound) not in found
            assert inode_of(client) not in found


def test_both_sources_tell_the_same() -> None:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(100)]
    try:
        ours = {inode_of(server) for server in servers}
        by_diag = {listener for listener in sockets.tcp_listeners() if listener.inode in ours}
        by_proc = {listener for listener in sockets.listeners_by_proc() if listener.inode in ours}
        assert len(by_diag) == 100
        assert by_diag == by_proc
    finally:
        for server in servers:
            server.close()


def test_where_diagnostics_are_refused_proc_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "NETLINK_SOCK_DIAG", 31)  # a family that no kernel has
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert inode_of(server) in {listener.inode for listener in sockets.tcp_listeners()}


@root_only
def test_everybody_sees_every_listener_and_nobody_sees_whose_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        inode, port = inode_of(server), server.getsockname()[1]
        listed = told_as(NOBODY, lambda: [each.uid for each in listeners_on(port, sockets.tcp_listeners())])
        assert (listed, told_as(NOBODY, lambda: process_behind(inode))) == ("[0]", "None")


def test_a_twin_on_the_same_port_is_a_listener_of_its_own() -> None:
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port), reuse_port=True) as first,
        socket.create_server(("127.0.0.1", port), reuse_port=True) as second,
    ):
        found = {listener.inode for listener in listeners_on(port, sockets.tcp_listeners())}
        assert found == {inode_of(first), inode_of(second)}


def test_inodes_lead_to_the_process_that_holds_them() -> None:
    with socket.socket() as mine, socket.socket() as other:
        wanted = frozenset({inode_of(mine), 1})
        assert owned_inodes((os.getpid(),), wanted) == {inode_of(mine)}
        assert owned_inodes((), wanted) == frozenset()
        assert process_behind(inode_of(other)) == os.getpid()
    assert process_behind(1) is None


HERE = [
    Listener("127.0.0.1", 8000, 0, 1),
    Listener("10.0.0.7", 8000, 0, 2),
    Listener("0.0.0.0", 8000, 0, 3),
    Listener("::", 8000, 0, 4),
    Listener("::1", 8000, 0, 5),
    Listener("::ffff:10.0.0.7", 8000, 0, 6),
    Listener("127.0.0.1", 8001, 0, 7),
]


@pytest.mark.parametrize(
    ("host", "inodes"),
    [
        pytest.param("127.0.0.1", [1, 3, 4], id="an-address-and-the-wildcards"),
        pytest.param("10.0.0.7", [2, 3, 4, 6], id="an-address-that-is-written-as-ipv6-too"),
        pytest.param("0:0::1", [3, 4, 5], id="an-address-in-another-spelling"),
        pytest.param("0.0.0.0", [1, 2, 3, 4, 5, 6], id="a-wildcard-meets-all"),
        pytest.param("localhost", [1, 2, 3, 4, 5, 6], id="a-name-may-be-any-address"),
        pytest.param("192.0.2.1", [3, 4], id="an-address-of-nobody"),
    ],
)
def test_only_listeners_at_the_same_address_are_in_each_others_way(host: str, inodes: list[int]) -> None:
    assert [listener.inode for listener in listeners_at(host, 8000, HERE)] == inodes
