"""Wait, before a start, for what it needs: the memory of its GPUs back, and its port free."""

from __future__ import annotations

from collections.abc import Callable

from llmgw_reconcile.host.sockets import listeners_at, process_behind, tcp_listeners
from llmgw_reconcile.supervisor.orders import Orders
from llmgw_reconcile.supervisor.wake import NEVER, Wake

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # between two looks, in seconds
PAUSE_GROWTH = 1.5


def wait_for_needs(orders: Orders, wake: Wake, tell: Callable[[str], None], budget: float = NEVER) -> str:
    """Until nothing stands against a start, or a stop is asked for; what still does after `budget` seconds, in words.

    `tell` hears what is waited for.
    """
    deadline = wake.monotonic() + budget
    pause = FIRST_PAUSE
    while not wake.stop_asked and (words := what_lacks(orders, wake)):
        if wake.monotonic() >= deadline:
            return words
        tell(words)
        wake.pause(pause)
        pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)
    return ""


def what_lacks(orders: Orders, wake: Wake) -> str:
    """What stands against a start now, in words; empty when nothing does, or when a stop is asked for meanwhile."""
    found = []
    if orders.gpus and (held := _held_memory(orders, wake)):
        found.append(f"memory not released: {'; '.join(held)}")
    if not wake.stop_asked and (taken := _port_taken(orders.target.host, orders.target.port)):
        found.append(taken)
    return "; ".join(found)


def _held_memory(orders: Orders, wake: Wake) -> tuple[str, ...]:
    """Who holds the engine's GPUs, in words; nothing when a stop is asked for meanwhile."""
    try:
        from llmgw_reconcile.discovery.gpu_memory import MemoryQuestion  # engines without GPUs never need it
    except ImportError as error:  # llmgw was removed or exchanged beneath us
        return (f"it cannot be asked for ({error})",)
    question = MemoryQuestion()
    try:
        for descriptors in question.calls:
            if wake.pause(question.deadline - wake.monotonic(), descriptors):
                return ()
        return question.answer(orders.gpus, orders.held_above_mb)
    finally:
        question.close()


def _port_taken(host: str, port: int) -> str:
    try:
        listeners = listeners_at(host, port, tcp_listeners())
    except OSError:
        return ""  # it cannot be seen; the engine itself will say so
    if not listeners:
        return ""
    pid = process_behind(listeners[0].inode)
    return f"port {port} is taken by " + (f"a process of uid {listeners[0].uid}" if pid is None else f"pid {pid}")
