"""The node made of folders sees what belongs to it, leaves strangers alone, and finds what is left over."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes import procs
from tests.fakes.node import Node

Start = Callable[[Node], "subprocess.Popen[bytes]"]


@pytest.fixture
def place() -> Iterator[Node]:
    """A node without the fixture's own leak check, which is what is tested here."""
    place = Node(Path(tempfile.mkdtemp(prefix="lg-")))
    yield place
    for pid in place.pids():
        place.kill(pid)
    shutil.rmtree(place.root, ignore_errors=True)


def by_command_line(place: Node) -> subprocess.Popen[bytes]:
    return subprocess.Popen([f"{place.root}/x", "600"], executable="/bin/sleep", env={})


def by_environment(place: Node) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "600"], env={"X": f"{place.root}/x"})


def by_working_directory(place: Node) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "600"], env={}, cwd=place.root)


def by_open_file(place: Node) -> subprocess.Popen[bytes]:
    with (place.root / "log").open("w") as log:
        return subprocess.Popen(["/bin/sleep", "600"], env={}, stdout=log)


@pytest.mark.parametrize("start", [by_command_line, by_environment, by_working_directory, by_open_file])
def test_a_process_left_over_is_found_killed_and_fails_the_test(place: Node, start: Start) -> None:
    process = start(place)
    procs.until(lambda: process.pid in place.pids())
    with pytest.raises(AssertionError, match=f"left over: .*{process.pid}"):
        place.leave()
    assert process.wait(5) == -signal.SIGKILL
    assert not place.root.exists()


def test_a_listener_on_one_of_its_ports_fails_the_test(place: Node) -> None:
    port = place.port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(AssertionError, match=str(port)):
        place.leave()


def test_a_process_that_is_not_the_nodes_is_not_killed(place: Node) -> None:
    with procs.bystanders() as innocents:
        for one in innocents.values():
            place.kill(one.pid)
        assert [one.poll() for one in innocents.values()] == [None] * len(innocents)


def test_a_harmed_bystander_fails_the_test() -> None:
    with (  # noqa: PT012 - the check is at the end of the block
        pytest.raises(AssertionError, match="a renamed worker"),
        procs.bystanders() as innocents,
    ):
        os.kill(innocents["a renamed worker"].pid, signal.SIGTERM)
        innocents["a renamed worker"].wait(5)


def test_ports_lie_below_the_ephemeral_range_and_never_come_twice() -> None:
    first = [procs.free_port(3) for _ in range(50)]
    ports = [port for start in first for port in range(start, start + 3)]
    assert len(set(ports)) == 150
    assert max(ports) < 32768
