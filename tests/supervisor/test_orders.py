"""Orders travel whole, or not at all."""

from __future__ import annotations

import os

import pytest

from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor.orders import Adoption, Budgets, Orders, Target, read_frame
from tests.fakes.supervised import BUDGETS

ORDERS = Orders(
    engine="chat@0",
    folder="/var/lib/llmgw/engines/chat@0",
    launch="00ff",
    argv=("/opt/vllm", "serve", "ä b"),
    env={"KEY": "canary\n", "EMPTY": ""},
    gpus=("GPU-1", "GPU-2"),
    target=Target("127.0.0.1", 8000, ("chat", "small"), "sk-1", "/health", 5.0),
    budgets=BUDGETS,
    loading_grace=5.0,
    secrets=("canary\n", "sk-1"),
    held_above_mb=1024,
)
ADOPTION = Adoption(ProcessId(7, 70), (ProcessId(7, 70), ProcessId(8, 80)), was_ready=True, restarts=3)


def through_a_pipe(data: bytes) -> list[bytes | None]:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    frames = [read_frame(reader)]
    while frames[-1] is not None:
        frames.append(read_frame(reader))
    os.close(reader)
    return frames


@pytest.mark.parametrize("orders", [ORDERS, ORDERS._replace(adoption=ADOPTION)], ids=["start", "adopt"])
def test_orders_come_out_as_they_went_in(orders: Orders) -> None:
    (frame, end) = through_a_pipe(orders.to_bytes())
    assert frame is not None
    assert Orders.from_bytes(frame) == orders
    assert end is None


def test_several_orders_keep_their_bounds() -> None:
    frames = through_a_pipe(ORDERS.to_bytes() + ORDERS._replace(engine="other@0").to_bytes())
    assert [Orders.from_bytes(frame).engine for frame in frames if frame] == ["chat@0", "other@0"]


@pytest.mark.parametrize("length", [0, 3, 4, 40], ids=["nothing", "half-a-length", "a-length-alone", "half-an-order"])
def test_an_order_that_breaks_off_is_none(length: int) -> None:
    assert through_a_pipe(ORDERS.to_bytes()[:length]) == [None]


def test_budgets_are_read_from_the_bookkeeping() -> None:
    bookkeeping = {
        "readiness": {"start_timeout": 7200, "silence_timeout": 900, "generate": False},
        "restart": {"policy": "never", "max_restarts": 2, "reset_after": 60},
        "stop_grace": 30,
        "labels": {},
    }
    assert Budgets.from_bookkeeping(bookkeeping) == Budgets(7200.0, 900.0, "never", 2, 60.0, 30.0)


@pytest.mark.parametrize("bookkeeping", [{}, {"readiness": {}, "restart": {}}, {"readiness": 1}], ids=repr)
def test_what_is_no_bookkeeping_is_refused(bookkeeping: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError)):
        Budgets.from_bookkeeping(bookkeeping)
