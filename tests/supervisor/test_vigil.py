"""The watch over a start: how far it got, and when it is given up. Time is what the test says it is."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmgw_reconcile.discovery import readiness
from llmgw_reconcile.model.process import Phase
from llmgw_reconcile.supervisor.orders import Orders
from llmgw_reconcile.supervisor.run import Run
from llmgw_reconcile.supervisor.vigil import Vigil
from llmgw_reconcile.supervisor.wake import NEVER
from tests.fakes.procs import until
from tests.fakes.supervised import BUDGETS, Place

SLEEP = ("/bin/sleep", "600")  # one process from the first moment: a shell would start a second one later


class Watch:
    """A vigil over a real process, and what it published."""

    def __init__(self, orders: Orders) -> None:
        self.run = Run.start(orders)
        self.orders = orders
        self.published: list[tuple[str, str]] = []
        self.news = 0
        self.now = 1000.0
        self.vigil = Vigil(self.run, orders.target, self.publish, self.note, self.now)

    def publish(self, phase: Phase, detail: str) -> None:
        if (str(phase), detail) not in self.published[-1:]:
            self.published.append((str(phase), detail))

    def note(self) -> None:
        self.news += 1

    def step(self, after: float = 0.0) -> float:
        """One step, so many seconds later; seconds until the next one."""
        self.now += after
        return self.vigil.step(self.orders.budgets, self.now) - self.now

    def settle(self, after: float = 0.0) -> None:
        """Steps at one moment until no probe is under way."""
        self.step(after)
        while self.vigil.round is not None:
            select.select([self.vigil.round.fileno()], [self.vigil.round.fileno()], [], 0.01)
            self.step()

    def until_ready(self) -> None:
        def look() -> bool:
            self.settle(0.1)
            return self.vigil.is_ready

        until(look)

    def append(self, text: str) -> None:
        with open(Path(self.run.log_path), "a") as log:  # type: ignore[attr-defined]
            log.write(text)


@pytest.fixture
def watch(place: Place) -> Iterator[Callable[..., Watch]]:
    made: list[Watch] = []

    def begin(*, stub: dict[str, object] | None = None, argv: tuple[str, ...] = SLEEP, **changes: object) -> Watch:
        orders = place.orders(stub=stub, argv=() if stub is not None else argv, **changes)
        made.append(Watch(orders))
        made[-1].run.log_path = place.folder().log  # type: ignore[attr-defined]
        return made[-1]

    yield begin
    for one in made:
        one.vigil.close()
        one.run.process.kill_group()
        until(lambda one=one: one.run.poll() is not None and not one.run.find_members())  # type: ignore[misc]
        one.run.close()


def test_a_process_of_which_nothing_is_heard_is_starting(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.settle()
    one.settle(1.0)
    assert one.published == [("starting", "")]
    assert not one.vigil.is_ready
    assert one.vigil.gave_up == ""


def test_an_engine_that_answers_well_is_ready_and_needs_no_more_watching(watch: Callable[..., Watch]) -> None:
    one = watch(stub={})
    one.until_ready()
    assert one.step(1000.0) == NEVER
    assert one.vigil.gave_up == ""


def test_an_engine_that_answers_503_is_loading_and_says_why(watch: Callable[..., Watch]) -> None:
    one = watch(stub={"LOAD_DELAY": 60})

    def look() -> bool:
        one.settle(0.1)
        return ("loading", "/health answers 503") in one.published

    until(look)


def test_a_line_of_the_log_tells_loading_apart_from_starting(watch: Callable[..., Watch]) -> None:
    one = watch()
    one.settle()
    one.append("INFO Starting to load model x\n")
    one.settle(1.0)
    assert one.published == [("starting", ""), ("loading", "")]


def test_processes_that_hold_the_model_are_loading_and_are_noted(watch: Callable[..., Watch]) -> None:
    one = watch(argv=("/bin/sh", "-c", "sleep 600 & sleep 600 & wait"))
    until(lambda: len(one.run.find_pids()) == 3)
    one.settle()
    assert one.published == [("loading", "")]
    assert len(one.run.members) == 3
    assert one.news == 1
    one.settle(1.0)
    assert one.news == 1


def test_a_start_has_an_end_whatever_moves(watch: Callable[..., Watch]) -> None:
    one = watch(start_timeout=60.0, silence_timeout=20.0)
    one.settle()
    for second in range(59):
        one.append(f"shard {second}\n")
        one.settle(1.0)
        assert one.vigil.gave_up == ""
    one.append("one more\n")
    one.settle(1.0)
    assert one.vigil.gave_up == "not ready within 60 s"


def test_silence_is_given_up_and_a_line_is_a_sign_of_life(watch: Callable[..., Watch]) -> None:
    one = watch(start_timeout=600.0, silence_timeout=20.0)
    one.settle()
    one.settle(19.0)
    one.append("still here\n")
    one.settle(1.0)
    one.settle(19.0)
    assert one.vigil.gave_up == ""
    one.settle(1.0)
    assert one.vigil.gave_up == "no progress for 20 s: nothing logged, nothing read"


def test_our_own_questions_in_its_log_are_no_sign_of_life(watch: Callable[..., Watch]) -> None:
    one = watch(start_timeout=600.0, silence_timeout=20.0)
    one.settle()
    for _ in range(20):
        assert one.vigil.gave_up == ""
        one.append('INFO: 127.0.0.1:5 - "GET /health HTTP/1.1" 503 Service Unavailable\n')
        one.settle(1.0)
    assert one.vigil.gave_up.startswith("no progress for 20 s")


def test_weights_that_are_read_are_a_sign_of_life(watch: Callable[..., Watch], place: Place) -> None:
    (place.root / "weights").write_bytes(b"\0" * (2 << 20))
    code = "import sys, time\nwhile True: open(sys.argv[1], 'rb').read(); time.sleep(0.01)"
    one = watch(
        argv=(sys.executable, "-ISc", code, str(place.root / "weights")), start_timeout=600.0, silence_timeout=20.0
    )
    read = Path(f"/proc/{one.run.process.id.pid}/io")
    before = 0
    for _ in range(30):
        until(lambda: int(read.read_text().split()[1]) - before > 3 << 20)  # noqa: B023 - asked at once
        before = int(read.read_text().split()[1])
        one.settle(1.0)
    assert one.vigil.gave_up == ""


def test_what_is_missing_is_told_when_it_is_given_up(watch: Callable[..., Watch]) -> None:
    one = watch(stub={"LOAD_DELAY": 600}, start_timeout=60.0)

    def look() -> bool:
        one.settle(0.01)
        return bool(one.published) and one.published[-1] == ("loading", "/health answers 503")

    until(look)
    one.settle(60.0)
    assert one.vigil.gave_up == "not ready within 60 s (/health answers 503)"


def test_budgets_that_were_changed_count_at_once(watch: Callable[..., Watch]) -> None:
    one = watch(start_timeout=60.0)
    one.settle()
    one.settle(30.0)
    one.orders = one.orders._replace(budgets=BUDGETS._replace(start_timeout=20.0))
    one.settle(1.0)
    assert one.vigil.gave_up == "not ready within 20 s"


def test_an_adopted_engine_that_was_ready_is_never_given_up(watch: Callable[..., Watch]) -> None:
    one = watch(start_timeout=60.0, silence_timeout=20.0)
    one.run.was_ready = True
    one.settle(100_000.0)
    assert one.vigil.gave_up == ""
    assert one.published == [("degraded", "/health: connection refused")]


def test_an_adopted_engine_that_was_ready_stays_so_until_it_is_known_better(watch: Callable[..., Watch]) -> None:
    one = watch(stub={"MUTE": "silent"})
    one.run.was_ready = True
    until(lambda: "startup complete" in Path(one.run.log_path).read_text())  # type: ignore[attr-defined]
    one.step()
    assert one.published == [("ready", "")]


def test_probes_come_quickly_at_first_and_seldom_in_the_end(watch: Callable[..., Watch]) -> None:
    one = watch(start_timeout=1e6, silence_timeout=1e6)
    one.settle()
    assert one.step() == pytest.approx(0.015)
    one.settle(10.0)
    assert one.step() == pytest.approx(0.1)
    one.settle(1000.0)
    assert one.step() == 0.25


def test_a_probe_that_hangs_is_waited_for_as_long_as_it_may_take(watch: Callable[..., Watch]) -> None:
    one = watch(stub={"MUTE": "silent"}, probe_timeout=30.0)

    def look() -> bool:
        one.step(0.1)
        return one.vigil.round is not None and time.monotonic() + 20 < one.vigil.round.deadline

    until(look)
    one.vigil.close()
    assert one.vigil.round is None


def test_sockets_that_cannot_be_listed_are_no_readiness_and_no_crash(
    watch: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    one = watch(stub={})
    monkeypatch.setattr(readiness.ReadinessRound, "advance", refuse)
    one.step(0.1)
    assert one.published[-1] == ("loading", "cannot be asked: Permission denied")
    assert not one.vigil.is_ready
