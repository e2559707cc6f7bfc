"""Supervisors are forked from one process, which ends with its caller while they live on."""

from __future__ import annotations

import os
import sys

import pytest

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.supervise.template import SupervisorTemplate
from llmgw_reconcile.supervisor.orders import Budgets, Orders, Target
from tests.fakes import procs
from tests.fakes.node import Node


def children() -> set[int]:
    return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if procs.parent_of(pid) == os.getpid()}


def test_nothing_is_started_before_there_are_orders_and_closing_twice_is_fine() -> None:
    before = children()
    template = SupervisorTemplate()
    assert children() == before
    template.close()
    template.close()


def test_an_apply_leaves_supervisors_and_no_template(node: Node) -> None:
    node.apply(node.state(node.model("a"), node.model("b")))
    lines = [line for line in node.pids().values() if line.startswith("llmgw: supervisor ")]
    assert sorted(line.split()[2] for line in lines) == ["a@0", "b@0"]
    assert not [line for line in node.pids().values() if "supervisor/__main__.py" in line]


def test_a_supervisor_names_its_engine_and_gpus_and_leads_a_session_of_its_own(node: Node) -> None:
    node.apply(node.state(node.model(tensor_parallel_size=2)))
    pid = node.supervisor_named("chat@0")
    uuids = ",".join(node.engine()["gpus"])
    assert procs.command_line(pid) == f"llmgw: supervisor chat@0 {uuids}"
    assert pid in procs.processes_in_session(pid)


def test_a_template_that_cannot_be_started_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    template = SupervisorTemplate()
    with pytest.raises(NodeError, match="cannot start supervisors: No such file or directory"):
        template.send(_orders())
    template.close()


def test_a_template_that_ends_before_it_answers_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    template = SupervisorTemplate()
    with pytest.raises(NodeError, match="cannot start a supervisor for chat@0: "):
        template.send(_orders())
    template.close()


def _orders() -> Orders:

    return Orders(
        engine="chat@0",
        folder="/nonexistent",
        launch="0",
        argv=("/bin/true",),
        env={},
        gpus=(),
        target=Target("127.0.0.1", 1, ("chat",), None, "/health", 1.0),
        budgets=Budgets(1.0, 1.0, "never", 0, 1.0, 1.0),
        loading_grace=1.0,
        secrets=(),
        held_above_mb=0,
    )
