"""Which GPUs a command means."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.gpu_choice import chosen_gpus, visible_gpus


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="not-set-shows-all"),
        pytest.param("", (), id="empty-hides-all"),
        pytest.param("-1", (), id="a-negative-number-too"),
        pytest.param("0, 2", ("0", "2"), id="indices"),
        pytest.param("GPU-a,GPU-b", ("GPU-a", "GPU-b"), id="uuids"),
        pytest.param("0,-1,2", ("0",), id="names-end-at-the-first-wrong-one"),
    ],
)
def test_what_is_visible(value: str | None, expected: tuple | None) -> None:
    assert visible_gpus(value) == expected


@pytest.mark.parametrize(
    ("visible", "flags", "need", "expected"),
    [
        pytest.param(None, {}, 2, None, id="nothing-says-which"),
        pytest.param(("3", "1", "0"), {}, 2, ("3", "1"), id="the-first-of-the-visible"),
        pytest.param(("3",), {}, 2, ("3",), id="fewer-than-needed"),
        pytest.param(None, {"--device-ids": "2,3"}, 2, ("2", "3"), id="named-by-a-flag"),
        pytest.param(("5", "6"), {"--device-ids": "1,0"}, 2, ("6", "5"), id="which-counts-among-the-visible"),
        pytest.param(("5", "6"), {"--device-ids": "GPU-a"}, 1, ("GPU-a",), id="unless-it-names-uuids"),
        pytest.param(None, {"--base-gpu-id": "4"}, 2, ("4", "5"), id="from-a-first-one-on"),
        pytest.param(None, {"--base-gpu-id": "1", "--gpu-id-step": "2"}, 2, ("1", "3"), id="in-steps"),
        pytest.param(("7", "6", "5"), {"--base-gpu-id": "1"}, 2, ("6", "5"), id="among-the-visible-again"),
        pytest.param(None, {"--base-gpu-id": "x"}, 2, None, id="a-flag-that-is-no-number"),
    ],
)
def test_which_are_used(visible: tuple | None, flags: dict, need: int, expected: tuple | None) -> None:
    assert chosen_gpus(visible, flags, need) == expected
