"""Where models lie on this disk, and what tells one content of them from another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmgw_reconcile.discovery.model_files import content_marks, find_in_cache
from tests.fakes.checkpoints import write_model, write_shards

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MAY_DAY = 1777586400  # 2026-04-30T22:00:00Z


def snapshot(hub: Path, commit: str = COMMIT, ref: str = "main") -> Path:
    folder = hub / "models--org--model"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / ref).write_text(commit)
    (folder / "snapshots" / commit).mkdir(parents=True)
    return folder / "snapshots" / commit


@pytest.mark.parametrize(
    ("place", "variables"),
    [
        pytest.param("home/.cache/huggingface/hub", {}, id="the-accounts-own"),
        pytest.param("xdg/huggingface/hub", {"XDG_CACHE_HOME": "{}/xdg"}, id="xdg"),
        pytest.param("hf/hub", {"HF_HOME": "{}/hf", "XDG_CACHE_HOME": "{}/xdg"}, id="hf-home"),
        pytest.param("own", {"HF_HUB_CACHE": "{}/own", "HF_HOME": "{}/hf"}, id="hub-cache"),
    ],
)
def test_the_cache_is_looked_for_where_the_engine_looks(tmp_path: Path, place: str, variables: dict[str, str]) -> None:
    expected = snapshot(tmp_path / place)
    env = {name: value.format(tmp_path) for name, value in variables.items()}
    assert find_in_cache("org/model", None, env, str(tmp_path / "home")) == str(expected)


def test_a_revision_is_a_branch_or_a_commit(tmp_path: Path) -> None:
    hub = tmp_path / ".cache/huggingface/hub"
    expected = str(snapshot(hub, ref="v2"))
    assert find_in_cache("org/model", "v2", {}, str(tmp_path)) == expected
    assert find_in_cache("org/model", COMMIT, {}, str(tmp_path)) == expected
    assert find_in_cache("org/model", None, {}, str(tmp_path)) is None  # no branch main
    assert find_in_cache("org/model", "0123456", {}, str(tmp_path)) is None


@pytest.mark.parametrize("ref", ["../../..", "..", "a/b", ""])
def test_a_ref_does_not_lead_outside(tmp_path: Path, ref: str) -> None:
    hub = tmp_path / ".cache/huggingface/hub"
    snapshot(hub)
    (hub / "models--org--model/refs/main").write_text(ref)
    assert find_in_cache("org/model", None, {}, str(tmp_path)) is None


def test_a_model_is_known_by_size_and_time_of_its_config_and_index(tmp_path: Path) -> None:
    path = write_shards(tmp_path, 2, ("BF16", 8))
    for name in ("config.json", "model.safetensors.index.json"):
        os.utime(tmp_path / name, (MAY_DAY, MAY_DAY))
    sizes = [(tmp_path / name).stat().st_size for name in ("config.json", "model.safetensors.index.json")]
    assert content_marks(path) == {
        "config.json": f"{sizes[0]} bytes of 2026-04-30T22:00:00Z",
        "model.safetensors.index.json": f"{sizes[1]} bytes of 2026-04-30T22:00:00Z",
    }


def test_a_model_of_one_file_is_known_by_that(tmp_path: Path) -> None:
    assert content_marks(write_model(tmp_path)).keys() == {"config.json", "model.safetensors"}


def test_a_file_is_known_by_itself(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"12345")
    os.utime(tmp_path / "m.gguf", (MAY_DAY, MAY_DAY))
    assert content_marks(str(tmp_path / "m.gguf")) == {"m.gguf": "5 bytes of 2026-04-30T22:00:00Z"}


def test_what_is_not_there_has_no_marks(tmp_path: Path) -> None:
    assert content_marks(str(tmp_path / "absent")) == {}
