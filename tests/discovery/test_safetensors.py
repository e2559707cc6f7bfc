"""Headers of safetensors files: how much they hold, and whether the file is as long as they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw_reconcile.discovery.safetensors import Shard, read_shard, summed
from llmgw_reconcile.model.checkpoint import Stored
from tests.fakes.checkpoints import write_safetensors


def test_tensors_are_summed_up_by_type(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m", ("BF16", 100), ("F8_E4M3", 40), ("BF16", 20))
    assert read_shard(str(tmp_path / "m")) == Shard((Stored("BF16", 120), Stored("F8_E4M3", 40)))


def test_a_file_of_many_gib_is_not_read(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m", ("BF16", 40 << 30))
    assert read_shard(str(tmp_path / "m")).weights == (Stored("BF16", 42949672960),)


def test_a_file_that_is_shorter_than_its_header_says_is_truncated(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m", ("BF16", 4096), length=4095)
    size = (tmp_path / "m").stat().st_size
    assert read_shard(str(tmp_path / "m")) == Shard(problem=f"truncated: {size} bytes, and its header says {size + 1}")


def test_a_file_that_ends_within_its_header_is_truncated(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes((200).to_bytes(8, "little") + b'{"t": ')
    assert read_shard(str(tmp_path / "m")) == Shard(problem="truncated: 14 bytes, and its header alone has 200")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "no safetensors file: it does not begin with the length of a header", id="empty"),
        pytest.param(b"\x01\x00", "no safetensors file: it does not begin with the length of a header", id="two-bytes"),
        pytest.param(
            (90).to_bytes(8, "little") + bytes(90), "its header is no JSON of safetensors", id="header-of-zeros"
        ),
        pytest.param(
            b"<html><head>", "no safetensors file: it does not begin with the length of a header", id="a-page"
        ),
        pytest.param(
            b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS, not the weights", id="lfs"
        ),
        pytest.param((2).to_bytes(8, "little") + b"[]", "its header is no JSON of safetensors", id="a-list"),
        pytest.param((8).to_bytes(8, "little") + b'{"t": 1}', "its header is no JSON of safetensors", id="no-tensor"),
        pytest.param(
            (4).to_bytes(8, "little") + b"\xff\xfe\xfd\xfc", "its header is no JSON of safetensors", id="bytes"
        ),
    ],
)
def test_what_is_no_safetensors_file_is_said(tmp_path: Path, data: bytes, problem: str) -> None:
    (tmp_path / "m").write_bytes(data)
    assert read_shard(str(tmp_path / "m")) == Shard(problem=problem)


def test_a_missing_file_is_the_callers_to_explain(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_shard(str(tmp_path / "m"))


def test_files_add_up() -> None:
    files = ((Stored("BF16", 3), Stored("F32", 1)), (Stored("BF16", 4),))
    assert summed(files) == (Stored("BF16", 7), Stored("F32", 1))
