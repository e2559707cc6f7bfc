"""The checks of `doctor`: what is well says nothing, what is not has a cure."""

from __future__ import annotations

import os

import pytest

from llmgw_reconcile.discovery.disk import Disk
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.checkup import Check
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.observed import LastExit, ObservedEngine, ObservedState, Phase, ProcessId
from llmgw_reconcile.model.rdma import Fabric, RdmaKind
from llmgw_reconcile.workflow.checkup import (
    check_engines,
    check_fabric,
    check_gpus,
    check_leftovers,
    check_state_dir,
)
from llmgw_reconcile.workflow.engines_here import InstalledEngine
from llmgw_reconcile.workflow.host import Host
from tests.fakes.placed import H100, a_node, gpu

FAILED = Diagnostic(Severity.ERROR, "nvidia-smi-failed", "nvidia-smi", "cannot read the GPUs: exit code 9")
LEADER = ProcessId(4100, 1)


def found(check: Check) -> list[tuple[str, str]]:
    """Severity and code of each finding; every one has a cure."""
    assert all(finding.hint for finding in check.findings)
    return [(str(finding.severity), finding.code) for finding in check.findings]


@pytest.mark.parametrize(
    ("inventory", "summary", "findings"),
    [
        pytest.param(a_node(), "none, and no driver", [], id="a-node-without-gpus"),
        pytest.param(
            a_node(gpu(0), gpu(1), driver_version="570.86", cuda_version="12.8"),
            "driver 570.86, CUDA 12.8, 2 x h100-80g",
            [],
            id="all-well",
        ),
        pytest.param(
            a_node(gpu(0, H100, "2 uncorrected ECC errors")),
            "1 x h100-80g",
            [("warning", "gpu-unfit")],
            id="a-bad-card",
        ),
        pytest.param(
            a_node(problems=(FAILED,)), "the cards are not known", [("error", "nvidia-smi-failed")], id="no-answer"
        ),
    ],
)
def test_the_driver_and_its_cards(inventory: Inventory, summary: str, findings: list) -> None:
    check = check_gpus(inventory)
    assert (check.summary, found(check)) == (summary, findings)


def test_installed_engines() -> None:
    engines = [InstalledEngine(EngineKind.VLLM, "/v/vllm", "0.33.0"), InstalledEngine(EngineKind.SGLANG, "/s", None)]
    check = check_engines(engines)
    assert (check.summary, found(check)) == ("vllm 0.33.0, sglang (version unknown)", [])
    assert found(check_engines([])) == [("warning", "no-engine")]


@pytest.mark.parametrize(
    ("fabric", "summary", "findings"),
    [
        pytest.param(Fabric(None, (), "no adapters"), "island: no adapters", [], id="island"),
        pytest.param(Fabric(RdmaKind.ROCE, ("a:1",), "1 port"), "roce: 1 port", [], id="chosen"),
        pytest.param(
            Fabric(None, (), "undecided: a, b", (("a:1",), ("b:1",))),
            "undecided",
            [("warning", "fabric-undecided")],
            id="undecided",
        ),
    ],
)
def test_the_fabric(fabric: Fabric, summary: str, findings: list) -> None:
    check = check_fabric(a_node(fabric=fabric))
    assert (check.summary, found(check)) == (summary, findings)


@pytest.mark.parametrize(
    ("engine", "findings"),
    [
        pytest.param(ObservedEngine("a@0", Phase.READY, LEADER, ProcessId(4099, 1)), [], id="well"),
        pytest.param(ObservedEngine("a@0", Phase.HELD), [], id="held"),
        pytest.param(ObservedEngine("a@0", Phase.ORPHANED, LEADER), ["no-supervisor"], id="no-supervisor"),
        pytest.param(
            ObservedEngine("a@0", Phase.ORPHANED, leftovers=(LEADER,)), ["left-over-processes"], id="half-gone"
        ),
        pytest.param(ObservedEngine("a@0", Phase.FAILED, last_exit=LastExit(code=1)), ["engine-failed"], id="failed"),
    ],
)
def test_what_is_left_of_engines(engine: ObservedEngine, findings: list[str]) -> None:
    assert [code for _, code in found(check_leftovers(ObservedState((engine,))))] == findings


def test_a_failed_engine_is_told_with_its_cause() -> None:
    engine = ObservedEngine("a@0", Phase.FAILED, last_exit=LastExit(code=1, cause="CUDA out of memory"))
    (finding,) = check_leftovers(ObservedState((engine,))).findings
    assert (finding.where, finding.message) == ("a@0", "CUDA out of memory")
    assert "llmgw logs a@0" in finding.hint


@pytest.fixture
def host(tmp_path) -> Host:
    root = StateDir(str(tmp_path / "state"))
    root.create()
    return Host("gpu-07", ("gpu-07",), root, os.environ, "/sys", SystemClock())


@pytest.mark.parametrize(
    ("disk", "findings"),
    [
        pytest.param(Disk("ext4", 100_000), [], id="well"),
        pytest.param(Disk(), [], id="unknown"),
        pytest.param(Disk("tmpfs", 100_000), [("warning", "state-dir-volatile")], id="in-memory"),
        pytest.param(Disk("nfs4", 100_000), [("warning", "state-dir-shared")], id="on-the-network"),
        pytest.param(Disk("ext4", 500), [("warning", "disk-full")], id="tight"),
        pytest.param(Disk("ext4", 10), [("error", "disk-full")], id="full"),
    ],
)
def test_the_disk_of_the_records(host: Host, disk: Disk, findings: list) -> None:
    assert found(check_state_dir(host, ObservedState(), disk)) == findings


def test_a_damaged_copy_of_the_last_file_is_told(host: Host) -> None:
    with open(f"{host.state_dir.root}/applied/applied.json", "w") as file:
        file.write("{")
    os.chmod(f"{host.state_dir.root}/applied/applied.json", 0o600)
    assert found(check_state_dir(host, ObservedState(), Disk())) == [("warning", "applied-unreadable")]


def test_a_state_directory_open_to_others_is_told_once(host: Host) -> None:
    os.chmod(host.state_dir.root, 0o777)
    problem = Diagnostic(Severity.ERROR, "records-unreadable", host.state_dir.root, "others may write to it")
    check = check_state_dir(host, ObservedState(problems=(problem,), readable=False), Disk())
    assert found(check) == [("error", "records-unreadable")]
