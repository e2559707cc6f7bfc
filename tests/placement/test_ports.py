"""Which port an engine serves on, with all that it opens besides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.errors import Diagnostic
from llmgw_reconcile.model.launch import PortNeeds
from llmgw_reconcile.placement.ports import assign_ports
from tests.fakes.placed import a_spec

ATTENTION = PortNeeds(offsets=(13, 233))


def ports(*specs: Any, held: dict[str, int] | None = None, **given: Any) -> dict[str, int | str | None]:
    """Engine -> port, or the message of why it has none."""
    known = {"ports": (8000, 8019), "busy": (), "kept": (), **given}
    answers = assign_ports(specs, held or {}, **known)
    return {name: answer.message if isinstance(answer, Diagnostic) else answer for name, answer in answers.items()}


def test_an_engine_that_serves_nothing_here_takes_no_port() -> None:
    needs = {"big@0": PortNeeds(listens=False)}
    assert ports(a_spec("big", port=8000), a_spec("chat"), needs=needs) == {"big@0": None, "chat@0": 8000}


def test_what_an_engine_opens_besides_is_given_to_nobody() -> None:
    needs = {"a@0": PortNeeds(fixed=(8001,)), "b@0": ATTENTION}
    assert ports(a_spec("a"), a_spec("b", port=7987), a_spec("c"), needs=needs) == {
        "a@0": 8002,
        "b@0": 7987,
        "c@0": 8003,
    }


def test_a_port_is_taken_only_where_those_beside_it_are_free() -> None:
    needs = {"a@0": ATTENTION}
    assert ports(a_spec("a"), needs=needs, busy={8013, 8234}) == {"a@0": 8002}


def test_the_ports_beside_one_that_was_just_given_are_taken() -> None:
    needs = {"a@0": PortNeeds(offsets=(1,)), "b@0": PortNeeds(offsets=(1,))}
    assert ports(a_spec("a"), a_spec("b"), needs=needs) == {"a@0": 8000, "b@0": 8002}


def test_the_ports_beside_those_of_a_running_engine_are_taken() -> None:
    needs = {"a@0": PortNeeds(offsets=(1,))}
    assert ports(a_spec("a"), a_spec("b"), held={"a@0": 8000}, needs=needs) == {"a@0": 8000, "b@0": 8002}


def test_a_port_in_the_file_does_not_displace_what_a_running_engine_opens_besides() -> None:
    found = ports(a_spec("a"), a_spec("b", port=8013), held={"a@0": 8000}, needs={"a@0": ATTENTION})
    assert found == {
        "a@0": 8000,
        "b@0": "port 8013 belongs to a@0, which runs on it and asks for no port of its own",
    }


@pytest.mark.parametrize(
    ("ephemeral", "expected"),
    [
        pytest.param(None, 8000, id="not-known"),
        pytest.param((32768, 60999), 8000, id="elsewhere"),
        pytest.param((1024, 8004), 8005, id="in-part"),
        pytest.param((1024, 65535), 8000, id="everywhere"),
    ],
)
def test_ports_that_the_kernel_gives_away_come_last(ephemeral: tuple[int, int] | None, expected: int) -> None:
    assert ports(a_spec("a"), ephemeral=ephemeral) == {"a@0": expected}


NEEDS = st.builds(
    PortNeeds,
    offsets=st.sets(st.integers(1, 4), max_size=2).map(tuple),
    fixed=st.sets(st.integers(8000, 8019), max_size=1).map(tuple),
)


@given(st.lists(NEEDS, max_size=6), st.sets(st.integers(8000, 8019)), st.booleans())
def test_no_port_is_opened_twice_and_none_that_is_busy(
    needs: list[PortNeeds], busy: set[int], first_runs: bool
) -> None:
    of = {f"m{number}@0": need for number, need in enumerate(needs)}
    specs = [a_spec(engine.removesuffix("@0")) for engine in of]
    held = {"m0@0": 8005} if first_runs and needs else {}
    given_ports = assign_ports(specs, held, ports=(8000, 8019), busy=busy, kept=(), needs=of)
    new = {engine: port for engine, port in given_ports.items() if isinstance(port, int) and engine not in held}
    opened = [port + offset for engine, port in new.items() for offset in (0, *of[engine].offsets)]
    others = {port for need in needs for port in need.fixed}
    others.update(8005 + offset for engine in held for offset in (0, *of[engine].offsets))
    assert len(opened) == len(set(opened))
    assert others.isdisjoint(opened)
    assert busy.isdisjoint(opened)
