"""What a start waits for."""

from __future__ import annotations

import os
import signal
import socket
import time

import pytest

from llmgw_reconcile.supervisor.needs import wait_for_needs, what_lacks
from llmgw_reconcile.supervisor.wake import NEVER, Wake
from tests.fakes.nvidia_smi import h100, uuid_of
from tests.fakes.supervised import Place
from tests.fakes.wakes import QuickWake

GPU0 = uuid_of(0)


@pytest.fixture(autouse=True)
def path(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{place.root}/bin:/usr/bin:/bin")


def test_an_engine_without_gpus_and_with_a_free_port_lacks_nothing(place: Place, wake: Wake) -> None:
    place.gpus(code=18)  # nobody asks
    assert what_lacks(place.orders(), wake) == ""


def test_gpus_that_are_free_are_no_need(place: Place, wake: Wake) -> None:
    place.gpus()
    assert what_lacks(place.orders(gpus=(GPU0,)), wake) == ""


def test_who_holds_a_gpu_is_named(place: Place, wake: Wake) -> None:
    place.gpus(processes=[{"gpu": GPU0, "pid": 4121, "mib": 61190}])
    assert what_lacks(place.orders(gpus=(GPU0,)), wake) == "memory not released: GPU 0: 61190 MiB held by pid 4121"


def test_who_listens_on_the_port_is_named(place: Place, wake: Wake) -> None:
    orders = place.orders()
    with socket.create_server(("127.0.0.1", orders.target.port)):
        assert what_lacks(orders, wake) == f"port {orders.target.port} is taken by pid {os.getpid()}"


def test_a_listener_at_another_address_is_in_nobodys_way(place: Place, wake: Wake) -> None:
    orders = place.orders()
    with socket.create_server(("127.0.0.2", orders.target.port)):
        assert what_lacks(orders, wake) == ""
        assert what_lacks(orders._replace(target=orders.target._replace(host="0.0.0.0")), wake) != ""


def test_all_needs_are_told_at_once(place: Place, wake: Wake) -> None:
    place.gpus(h100(0, memory_used=9000))
    orders = place.orders(gpus=(GPU0,))
    with socket.create_server(("127.0.0.1", orders.target.port)):
        assert what_lacks(orders, wake) == (
            "memory not released: GPU 0: 9000 MiB held by no visible process; "
            f"port {orders.target.port} is taken by pid {os.getpid()}"
        )


def test_a_wait_tells_what_for_and_ends_when_it_is_there(place: Place, quick: QuickWake) -> None:
    told: list[str] = []
    place.gpus(h100(0, memory_used=9000))
    quick.meanwhile[3] = place.gpus
    assert wait_for_needs(place.orders(gpus=(GPU0,)), quick, told.append, 120.0) == ""
    assert told == ["memory not released: GPU 0: 9000 MiB held by no visible process"] * 3
    assert quick.pauses == [0.5, 0.75, 1.12]


def test_a_first_start_waits_no_longer_than_its_budget(place: Place, quick: QuickWake) -> None:
    place.gpus(h100(0, memory_used=9000))
    words = wait_for_needs(place.orders(gpus=(GPU0,)), quick, lambda _: None, 20.0)
    assert words == "memory not released: GPU 0: 9000 MiB held by no visible process"
    assert 20.0 <= sum(quick.pauses) < 25.0
    assert quick.pauses[-1] == 5.0


def test_a_restart_waits_as_long_as_it_takes(place: Place, quick: QuickWake) -> None:
    orders = place.orders()
    listener = socket.create_server(("127.0.0.1", orders.target.port))
    quick.meanwhile[200] = listener.close
    assert wait_for_needs(orders, quick, lambda _: None, NEVER) == ""
    assert len(quick.pauses) == 200


def test_a_stop_ends_a_wait(place: Place, wake: Wake) -> None:
    orders = place.orders()

    def tell(_: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with socket.create_server(("127.0.0.1", orders.target.port)):
        assert wait_for_needs(orders, wake, tell, NEVER) == ""
    assert wake.stop_asked


def test_a_stop_does_not_wait_for_a_tool_that_hangs(place: Place, wake: Wake) -> None:
    place.gpus(hang=True)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    began = time.monotonic()
    try:
        assert wait_for_needs(place.orders(gpus=(GPU0,)), wake, lambda _: None, NEVER) == ""
    finally:
        signal.signal(signal.SIGALRM, before)
    assert wake.stop_asked
    assert time.monotonic() - began < 5
