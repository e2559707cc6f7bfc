"""Models on disk as small as they can be: headers that say what a test is about, and no weights behind them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

LLAMA = {
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 16,
    "hidden_size": 4096,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}


def write_safetensors(path: Path, *tensors: tuple[str, int], length: int | None = None) -> None:
    """Tensors of these types and bytes. `length`: bytes of them in the file, where the header does not say it."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for number, (dtype, size) in enumerate(tensors):
        header[f"t{number}"] = {"dtype": dtype, "shape": [size], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with path.open("r+b") as file:  # sparse: a checkpoint of many GiB costs nothing
        file.truncate(8 + len(text) + (end if length is None else length))


def write_model(folder: Path, *tensors: tuple[str, int], tokenizer: bool = True, **config: Any) -> str:
    """A folder with one file of weights."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA | config))
    write_safetensors(folder / "model.safetensors", *(tensors or (("BF16", 4096),)))
    if tokenizer:
        (folder / "tokenizer.json").write_text("{}")
    return str(folder)


def write_shards(folder: Path, count: int, *tensors: tuple[str, int], missing: tuple[int, ...] = ()) -> str:
    """The same in shards, each with these tensors; an index names them all."""
    path = write_model(folder)
    (folder / "model.safetensors").unlink()
    names = [f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]
    total = count * sum(size for _, size in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": {f"t{n}": name for n, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for number, name in enumerate(names, start=1):
        if number not in missing:
            write_safetensors(folder / name, *tensors)
    return path


def gguf(*entries: tuple[str, int | str | list[int] | list[str]], tensors: tuple[tuple[int, int], ...] = ()) -> bytes:
    """A GGUF header, version 3: metadata, and tensors as (values, type); their bytes are for the caller to add."""
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(entries))
    for key, value in entries:
        out += _text(key) + _typed(value)
    offset = 0
    for number, (values, kind) in enumerate(tensors):
        out += _text(f"t{number}") + struct.pack("<IQIQ", 1, values, kind, offset)
        offset += 32
    return out + bytes(-len(out) % 32)


def _typed(value: int | str | list[int] | list[str]) -> bytes:
    if isinstance(value, list):
        kind = 8 if value and isinstance(value[0], str) else 4
        items = b"".join(_text(item) if isinstance(item, str) else struct.pack("<I", item) for item in value)
        return struct.pack("<IIQ", 9, kind, len(value)) + items
    return struct.pack("<I", 8) + _text(value) if isinstance(value, str) else struct.pack("<II", 4, value)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
