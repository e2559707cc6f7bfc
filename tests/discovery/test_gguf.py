"""Headers of GGUF files, written by hand, and one that a real llama-server loads."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from llmgw_reconcile.demo import model_bytes
from llmgw_reconcile.discovery.gguf import NoGgufError, read_gguf
from tests.fakes.checkpoints import gguf

F32, Q8_0, Q4_K = 0, 8, 12


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def test_the_demo_model_is_understood_and_whole(tmp_path: Path) -> None:
    found = read_gguf(written(tmp_path / "m.gguf", model_bytes()))
    assert found.metadata["general.architecture"] == "llama"
    assert (found.metadata["llama.context_length"], found.metadata["llama.attention.head_count_kv"]) == (512, 2)
    assert found.size == found.wanted


def test_metadata_of_every_shape_is_read_or_passed_over(tmp_path: Path) -> None:
    header = gguf(("a.words", ["one", "two"]), ("a.heads", [8, 0, 8]), ("a.name", "x"), ("a.count", 7))
    assert read_gguf(written(tmp_path / "m", header)).metadata == {
        "a.words": None,
        "a.heads": [8, 0, 8],
        "a.name": "x",
        "a.count": 7,
    }


def test_long_arrays_are_cut_and_what_follows_is_still_found(tmp_path: Path) -> None:
    header = gguf(("a.long", [1] * 1500), ("a.after", 5))
    found = read_gguf(written(tmp_path / "m", header)).metadata
    assert (len(found["a.long"]), found["a.after"]) == (1024, 5)


@pytest.mark.parametrize(
    ("tensors", "size"),
    [
        pytest.param(((8, F32),), 32, id="8-floats-of-4-bytes"),
        pytest.param(((32, Q8_0),), 34, id="a-block-of-34-bytes"),
        pytest.param(((512, Q4_K),), 288, id="two-blocks-of-144-bytes"),
        pytest.param(((64, 999),), 0, id="a-type-that-is-not-known-counts-nothing"),
    ],
)
def test_the_tensor_table_says_how_long_the_file_must_be(
    tmp_path: Path, tensors: tuple[tuple[int, int], ...], size: int
) -> None:
    header = gguf(("general.architecture", "llama"), tensors=tensors)
    found = read_gguf(written(tmp_path / "m", header + bytes(size)))
    assert (found.tensors, found.size - found.wanted) == (size, 0)


def test_a_header_without_tensors_asks_for_itself_alone(tmp_path: Path) -> None:
    found = read_gguf(written(tmp_path / "m", gguf(("a", 1))))
    assert (found.tensors, found.wanted) == (0, 41)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "truncated: it ends within its header", id="empty"),
        pytest.param(b"PK\x03\x04", "no GGUF file: it does not begin with that word", id="another-file"),
        pytest.param(b"GGUF" + struct.pack("<I", 1), "GGUF version 1, which is not known", id="version-1"),
        pytest.param(
            struct.pack("<4sI", b"FUGG", 3), "no GGUF file: it does not begin with that word", id="big-endian"
        ),
        pytest.param(gguf(("a", "word"))[:40], "truncated: it ends within its header", id="cut-off"),
        pytest.param(
            struct.pack("<4sIQQ", b"GGUF", 3, 1 << 60, 0), "truncated: it ends within its header", id="absurd-count"
        ),
        pytest.param(
            struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1 << 60), "its header is longer than 256 MiB", id="absurd-length"
        ),
        pytest.param(
            struct.pack("<4sIQQQ1sI", b"GGUF", 3, 0, 1, 1, b"a", 77),
            "metadata of type 77, which is not known",
            id="type",
        ),
    ],
)
def test_what_is_no_gguf_is_said(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(NoGgufError) as error:
        read_gguf(written(tmp_path / "m", data))
    assert str(error.value) == problem
