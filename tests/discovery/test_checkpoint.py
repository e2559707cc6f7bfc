"""Models on disk: whole, with a shard too few, cut off, without a tokenizer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from llmgw_reconcile.demo import model_bytes
from llmgw_reconcile.discovery.checkpoint import read_checkpoint, read_config
from llmgw_reconcile.model.checkpoint import DamageKind, OwnQuantization, Stored
from tests.fakes.checkpoints import gguf, write_model, write_safetensors, write_shards


def damage(path: str) -> list[tuple[str, str]]:
    found = read_checkpoint(path)
    assert found is not None
    return [(str(kind), words.replace(path, "M")) for kind, words in found.damage]


def test_a_whole_model_of_one_file(tmp_path: Path) -> None:
    found = read_checkpoint(write_model(tmp_path, ("BF16", 2048), ("F32", 512)))
    assert found is not None
    assert (found.layers, found.heads, found.size, found.damage) == (16, 32, 2560, ())
    assert found.weights == (Stored("BF16", 2048), Stored("F32", 512))


def test_a_whole_model_of_three_shards(tmp_path: Path) -> None:
    found = read_checkpoint(write_shards(tmp_path, 3, ("F8_E4M3", 100)))
    assert found is not None
    assert (found.weights, found.damage) == ((Stored("F8_E4M3", 300),), ())


def test_missing_shards_are_named_and_counted(tmp_path: Path) -> None:
    path = write_shards(tmp_path, 6, ("BF16", 100), missing=(1, 2, 4, 6))
    assert damage(path) == [
        (
            "weights-missing",
            (
                "M: 4 of 6 shards are missing: model-00001-of-00006.safetensors, model-00002-of-00006.safetensors, "
                "model-00004-of-00006.safetensors and 1 more"
            ),
        )
    ]


def test_the_size_of_a_model_with_missing_shards_is_that_of_its_index(tmp_path: Path) -> None:
    found = read_checkpoint(write_shards(tmp_path, 3, ("BF16", 100), missing=(2,)))
    assert found is not None
    assert found.size == 300


def test_a_truncated_shard_is_named_with_both_lengths(tmp_path: Path) -> None:
    path = write_shards(tmp_path, 2, ("BF16", 4096))
    shard = tmp_path / "model-00002-of-00002.safetensors"
    size = shard.stat().st_size
    os.truncate(shard, size - 96)
    assert damage(path) == [
        (
            "weights-damaged",
            f"M/model-00002-of-00002.safetensors: truncated: {size - 96} bytes, and its header says {size}",
        )
    ]


def test_a_model_without_a_tokenizer(tmp_path: Path) -> None:
    assert damage(write_model(tmp_path, tokenizer=False)) == [
        ("tokenizer-missing", "M: no tokenizer among its 2 files")
    ]


@pytest.mark.parametrize(
    "name", ["tokenizer.model", "vocab.json", "tekken.json", "spiece.model", "qwen.tiktoken", "tokenization_x.py"]
)
def test_tokenizers_have_many_names(tmp_path: Path, name: str) -> None:
    path = write_model(tmp_path, tokenizer=False)
    (tmp_path / name).write_text("")
    assert damage(path) == []


def test_a_folder_without_weights_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    found = read_checkpoint(str(tmp_path))
    assert found is not None
    assert (found.size, found.damage) == (None, ())


def test_in_a_download_cache_the_engine_fetches_what_is_missing(tmp_path: Path) -> None:
    found = read_checkpoint(write_shards(tmp_path, 3, ("BF16", 100), missing=(2,)), is_whole=False)
    assert found is not None
    assert (found.size, found.damage) == (300, ())


def test_a_second_copy_in_another_format_is_not_counted(tmp_path: Path) -> None:
    path = write_model(tmp_path, ("BF16", 64))
    write_safetensors(tmp_path / "consolidated.safetensors", ("BF16", 64))
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(999))
    found = read_checkpoint(path)
    assert found is not None
    assert found.size == 64


def test_pickled_weights_count_by_the_size_of_their_files(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model-00001-of-00002.bin").write_bytes(bytes(70))
    index = {"weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert damage(path) == [
        ("weights-missing", "M: 1 of 2 shards are missing: pytorch_model-00002-of-00002.bin"),
    ]


def test_an_index_that_points_outside_its_folder_is_not_followed(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    index = {"weight_map": {"a": "../../etc/passwd", "b": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert damage(path) == []


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("quantize_config.json", {"bits": 4}, OwnQuantization("gptq")),
        ("quant_config.json", {"w_bit": 4}, OwnQuantization("awq")),
        ("hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}}, OwnQuantization("modelopt", "FP8")),
        ("hf_quant_config.json", {"quantization": {}}, None),
    ],
)
def test_older_checkpoints_say_their_quantization_in_a_file_of_its_own(
    tmp_path: Path, name: str, content: object, expected: OwnQuantization | None
) -> None:
    path = write_model(tmp_path)
    (tmp_path / name).write_text(json.dumps(content))
    found = read_checkpoint(path)
    assert found is not None
    assert found.quantization == expected


def test_a_gguf_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(model_bytes())
    found = read_checkpoint(str(tmp_path / "m.gguf"))
    assert found is not None
    assert (found.layers, found.heads, found.context, found.damage) == (2, 4, 512, ())
    assert found.weights[0].dtype == "GGUF"


def test_a_gguf_that_is_cut_off_is_damaged(tmp_path: Path) -> None:
    data = model_bytes()
    (tmp_path / "m.gguf").write_bytes(data[:-64])
    assert damage(str(tmp_path / "m.gguf")) == [
        ("weights-damaged", f"M: truncated: {len(data) - 64} bytes, and its header says {len(data)}")
    ]


def test_a_split_gguf_needs_all_of_its_parts(tmp_path: Path) -> None:
    part = gguf(("general.architecture", "llama"), ("split.count", 3), tensors=((8, 0),)) + bytes(32)
    for number in (1, 3):
        (tmp_path / f"m-{number:05}-of-00003.gguf").write_bytes(part)
    found = read_checkpoint(str(tmp_path / "m-00001-of-00003.gguf"))
    assert found is not None
    assert [(d.kind, d.words) for d in found.damage] == [
        (DamageKind.WEIGHTS_MISSING, f"{tmp_path}: 1 of 3 shards are missing: m-00002-of-00003.gguf")
    ]
    (tmp_path / "m-00002-of-00003.gguf").write_bytes(part)
    found = read_checkpoint(str(tmp_path / "m-00001-of-00003.gguf"))
    assert found is not None
    assert (found.size, found.damage) == (96, ())


def test_what_is_not_there_or_is_something_else_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe.gguf")
    assert read_checkpoint(str(tmp_path / "absent")) is None
    assert read_checkpoint(str(tmp_path / "weights.bin")) is None
    assert read_checkpoint(str(tmp_path / "pipe.gguf")) is None
    assert read_checkpoint(str(tmp_path)) is None  # a folder without a config


@pytest.mark.parametrize(
    ("text", "reason"), [("{", "not JSON"), ("[1]", "not a JSON object"), ("[" * 100_000, "not JSON")]
)
def test_a_config_that_is_none_says_why(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason):
        read_config(str(path))
