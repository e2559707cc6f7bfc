"""What was applied last, written and read back."""

from __future__ import annotations

import os

import pytest

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.workflow.applied import Applied, last_applied, record_applied
from llmgw_reconcile.workflow.host import Host


@pytest.fixture
def host(tmp_path) -> Host:
    root = StateDir(str(tmp_path / "state"))
    root.create()
    return Host("gpu-07", ("gpu-07",), root, os.environ, "/sys", SystemClock())


def test_before_the_first_apply_there_is_none(host: Host) -> None:
    assert last_applied(host.state_dir) is None


@pytest.mark.parametrize(
    ("source", "file"),
    [pytest.param("/etc/node.yaml", "/etc/node.yaml", id="file"), pytest.param("-", "-", id="stdin")],
)
def test_the_bytes_and_the_name_come_back(host: Host, source: str, file: str) -> None:
    record_applied(host, DesiredState(source, ()), b"version: 1\n", "sha256:1")
    assert last_applied(host.state_dir) == Applied(b"version: 1\n", file)


def test_a_damaged_record_is_not_believed(host: Host) -> None:
    record_applied(host, DesiredState("-", ()), b"version: 1\n", "sha256:1")
    with open(f"{host.state_dir.root}/applied/applied.json", "w") as file:
        file.write("{")
    with pytest.raises(NodeError, match=r"cannot read what was applied last, in .*/applied: it is not JSON"):
        last_applied(host.state_dir)
