"""What still holds an engine's GPUs, from what the tool says."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest

from llmgw_reconcile.discovery.gpu_memory import MemoryQuestion
from tests.fakes.nvidia_smi import h100, install_nvidia_smi, lost_card, uuid_of

GPU0, GPU1 = uuid_of(0), uuid_of(1)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def what_holds(*gpus: str, held_above_mb: int = 1024) -> tuple[str, ...]:
    question = MemoryQuestion()
    try:
        return question.answer(gpus or (GPU0,), held_above_mb)
    finally:
        question.close()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param({}, (), id="free"),
        pytest.param({"gpus": [h100(0, memory_used=1024), h100(1)]}, (), id="as-much-as-a-driver-may-hold"),
        pytest.param(
            {"gpus": [h100(0, memory_used=1025), h100(1)]},
            ("GPU 0: 1025 MiB held by no visible process",),
            id="more-than-a-driver-may-hold",
        ),
        pytest.param({"gpus": [h100(0, memory_used=None), h100(1)]}, (), id="a-card-that-does-not-tell"),
        pytest.param({"processes": [{"gpu": GPU0, "pid": 7, "mib": 63}]}, (), id="a-desktop"),
        pytest.param(
            {"processes": [{"gpu": GPU0, "pid": 7, "mib": 64}, {"gpu": GPU0, "pid": 8, "mib": 61190}]},
            ("GPU 0: 64 MiB held by pid 7", "GPU 0: 61190 MiB held by pid 8"),
            id="two-processes",
        ),
        pytest.param(
            {"processes": [{"gpu": GPU0, "pid": 7, "mib": None}]},
            ("GPU 0: memory held by pid 7",),
            id="a-process-with-an-unknown-amount",
        ),
        pytest.param({"processes": [{"gpu": GPU1, "pid": 7, "mib": 61190}]}, (), id="a-process-on-another-card"),
        pytest.param({"gpus": [h100(1)]}, (f"{GPU0} is gone",), id="the-card-is-gone"),
        pytest.param({"gpus": [h100(0), lost_card("0000:1B:00.0")], "code": 15}, (), id="another-card-is-lost"),
    ],
)
def test_it_is_said_who_holds_a_card(bin_folder: Path, node: dict[str, object], expected: tuple[str, ...]) -> None:
    install_nvidia_smi(bin_folder, {"gpus": [h100(0), h100(1)], **node})
    assert what_holds() == expected


def test_every_card_of_the_engine_is_asked_about(bin_folder: Path) -> None:
    processes = [{"gpu": GPU0, "pid": 7, "mib": 100}, {"gpu": GPU1, "pid": 7, "mib": 200}]
    install_nvidia_smi(bin_folder, {"gpus": [h100(0), h100(1)], "processes": processes})
    assert what_holds(GPU0, GPU1) == ("GPU 0: 100 MiB held by pid 7", "GPU 1: 200 MiB held by pid 7")


@pytest.mark.parametrize(
    "replies",
    [
        pytest.param(
            {"": {"error": "Failed to initialize NVML: Driver/library version mismatch", "code": 18}}, id="18"
        ),
        pytest.param({"--query-gpu": {"text": ""}}, id="no-cards-told"),
        pytest.param({"--query-compute-apps": {"text": "", "code": 6}}, id="no-processes-told"),
    ],
)
def test_an_answer_that_cannot_be_read_stands_against_a_start(bin_folder: Path, replies: dict[str, object]) -> None:
    install_nvidia_smi(bin_folder, {"gpus": [h100(0)], "replies": replies})
    (words,) = what_holds()
    assert words


def test_a_node_without_the_tool_has_nothing_to_wait_for(bin_folder: Path) -> None:
    assert what_holds() == ()


def test_whoever_asks_may_wait_for_the_calls_himself(bin_folder: Path) -> None:
    install_nvidia_smi(bin_folder, {"gpus": [h100(0)], "delay": 0.1})
    question = MemoryQuestion()
    assert 15 < question.deadline - time.monotonic() <= 20
    for descriptors in question.calls:
        select.select(descriptors, [], [])
    before = time.monotonic()
    assert question.answer((GPU0,), 1024) == ()
    assert time.monotonic() - before < 0.1
    question.close()


def test_a_question_that_nobody_waits_for_ends_with_its_calls(bin_folder: Path) -> None:
    install_nvidia_smi(bin_folder, {"gpus": [h100(0)], "hang": True})
    before = len(os.listdir("/proc/self/fd"))
    question = MemoryQuestion()
    question.close()
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
