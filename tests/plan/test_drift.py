"""A live engine against its own record: every spelling of the same is the same, and a real difference is told."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.model.gpu import Gpu, Holder
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.plan.drift import drift_of
from tests.plan.builders import VLLM, gpu, running, spec

RECORDED = [VLLM, "serve", "org/llama", "--port", "8000", "--max-model-len", "4096"]
PYTHON = "/opt/vllm/bin/python3"


def drift(command: list[str], argv: list[Any] = RECORDED, *, gpus: tuple[Gpu, ...] = (), **changed: Any) -> list[str]:
    seen = running(spec(**changed.pop("spec", {})), gpu(0))
    seen = seen._replace(launch={**(seen.launch or {}), "argv": argv}, command=tuple(command))._replace(**changed)
    findings = drift_of(seen, gpus)
    assert {(d.severity, d.code, d.where, d.hint) for d in findings} <= {
        ("warning", "drift", "chat@0", "`llmgw restart chat@0` starts it as recorded")
    }
    return [d.message for d in findings]


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        pytest.param(RECORDED, RECORDED, id="as-it-was-started"),
        pytest.param([PYTHON, *RECORDED], RECORDED, id="a-script-as-the-kernel-shows-it"),
        pytest.param(["/lib/real-vllm", *RECORDED[1:]], RECORDED, id="behind-a-wrapper"),
        pytest.param(
            [PYTHON, VLLM, "serve", "org/llama", "--max_model_len=4096", "--port", "8000"],
            RECORDED,
            id="other-spellings",
        ),
        pytest.param([VLLM, "--api-key", "s3cr3t"], [VLLM, "--api-key", {"file": "/k"}], id="a-secret"),
        pytest.param(
            [VLLM, "--chat-template", "/state/files/0123abcd-x.jinja"],
            [VLLM, "--chat-template", {"file": "/repo/x.jinja", "digest": "sha256:0123abcd"}],
            id="a-copied-file",
        ),
        pytest.param([], RECORDED, id="a-command-line-that-cannot-be-read"),
        pytest.param(RECORDED, [], id="a-record-without-one"),
    ],
)
def test_the_same_engine_does_not_drift(command: list[str], argv: list[Any]) -> None:
    assert drift(command, argv) == []


def test_a_prefix_that_gave_way_to_the_engine_is_no_difference() -> None:
    argv = ["numactl", "--cpunodebind=0", *RECORDED]
    assert drift(RECORDED, argv, spec={"prefix": ("numactl", "--cpunodebind=0")}) == []


@pytest.mark.parametrize(
    ("command", "argv", "difference"),
    [
        pytest.param(
            [PYTHON, VLLM, "serve", "org/llama", "--port", "8000", "--max-model-len", "8192"],
            RECORDED,
            "--max-model-len is 8192, recorded 4096",
            id="another-value",
        ),
        pytest.param(
            [VLLM, "serve", "org/llama", "--port", "8000"],
            RECORDED,
            "--max-model-len is absent, recorded 4096",
            id="absent",
        ),
        pytest.param(
            [*RECORDED, "--enforce-eager"], RECORDED, "--enforce-eager is true, recorded absent", id="one-more-flag"
        ),
        pytest.param(
            [VLLM, "serve", "org/other", *RECORDED[3:]],
            RECORDED,
            "words without a flag is org/other, recorded org/llama",
            id="another-model",
        ),
        pytest.param(
            [VLLM, "--api-key", "s3cr3t", "--port", "1"],
            [VLLM, "--api-key", {"file": "/k"}, "--port", "2"],
            "--port is 1, recorded 2",
            id="beside-a-secret",
        ),
        pytest.param(
            [VLLM, "--hf-token", "hf_s3cr3t"],
            [VLLM, "--hf-token", "hf_0ther"],
            "--hf-token is (secret), recorded (secret)",
            id="a-literal-secret",
        ),
        pytest.param(
            [VLLM, "--a", "1", "--b", "1", "--c", "1", "--d", "1", "--e", "1", "--z", "1"],
            [VLLM, "--y", "1", "--z", "1"],
            "--a is 1, recorded absent; --b is 1, recorded absent; --c is 1, recorded absent; and 3 more",
            id="many",
        ),
    ],
)
def test_another_command_line_is_told_flag_by_flag(command: list[str], argv: list[Any], difference: str) -> None:
    assert drift(command, argv) == [f"its command line is not the recorded one: {difference}"]


def test_another_context_than_the_recorded_one() -> None:
    assert drift(RECORDED, spec={"max_model_len": 4096}, context=8192) == [
        "it takes a context of 8192 tokens, and its record says 4096"
    ]
    assert drift(RECORDED, spec={"max_model_len": 4096}, context=4096) == []
    assert drift(RECORDED, context=8192) == []


def test_another_version_than_the_recorded_one() -> None:
    def runs(version: str | None, recorded: str | None) -> list[str]:
        seen = running()
        launch = {**(seen.launch or {}), "engine_version": recorded}
        return [d.message for d in drift_of(seen._replace(launch=launch, version=version), ())]

    assert runs("0.34.0", "0.33.0") == ["version 0.34.0 runs, and its record says 0.33.0"]
    assert runs("0.33.0", "0.33.0+cu129") == []
    assert runs("0.33.0", "0.33.0") == runs(None, "0.33.0") == runs("0.33.0", None) == []


def test_memory_on_a_card_that_the_record_does_not_name() -> None:
    own = gpu(0)._replace(holders=(Holder(4100, engine="chat@0"),))
    other = gpu(5)._replace(holders=(Holder(4100, engine="chat@0"), Holder(9, engine="code@0")))
    foreign = gpu(6)._replace(holders=(Holder(9, engine="code@0"),))
    assert drift(RECORDED, gpus=(own, other, foreign)) == [
        "it holds memory on GPU 5 (h100-80g), which its record does not name"
    ]


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.LOADING, Phase.BACKOFF, Phase.STOPPING])
def test_an_engine_that_is_still_becoming_what_it_is_is_not_compared(phase: Phase) -> None:
    assert drift([PYTHON], phase=phase) == []


def test_an_engine_without_a_record_is_not_compared() -> None:
    assert drift_of(running()._replace(launch=None, command=("x",)), ()) == ()
