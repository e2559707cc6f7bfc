"""Turn a model on this node's disk into what it says of itself: bounded reads of headers, never of weights."""

from __future__ import annotations

import json
import os
from typing import Any

from llmgw_reconcile.discovery.gguf import NoGgufError, read_gguf
from llmgw_reconcile.discovery.model_config import from_config, from_gguf, own_quantization
from llmgw_reconcile.discovery.model_files import INDEX
from llmgw_reconcile.discovery.safetensors import read_shard, summed
from llmgw_reconcile.host.file_start import read_start
from llmgw_reconcile.model.checkpoint import Checkpoint, Damage, DamageKind, OwnQuantization, Stored

CONFIG_LIMIT = 4 << 20
INDEX_LIMIT = 64 << 20  # 100,000 tensors make some 10 MiB
SHARDS_NAMED = 3  # in a message; all of them are counted

_INDEXES = (INDEX, "pytorch_model.bin.index.json")
_QUANTIZATION_FILES = {"hf_quant_config.json": None, "quantize_config.json": "gptq", "quant_config.json": "awq"}
_TOKENIZER_STARTS = ("tokenizer", "tokenization", "vocab.", "spiece.", "tekken", "sentencepiece")
_SPLIT = "-of-"  # model-00001-of-00003.gguf


def read_checkpoint(path: str, *, is_whole: bool = True) -> Checkpoint | None:
    """What lies at an absolute path, a folder or a GGUF file; None where it cannot be read or is neither.

    `is_whole` False: a folder of a download cache, where an engine fetches what is missing, so that nothing is amiss.
    """
    try:
        if not os.path.isdir(path):
            return _read_gguf_parts(path)
        names = frozenset(os.listdir(path))
        config = read_config(os.path.join(path, "config.json"))
    except (OSError, ValueError):
        return None
    found = from_config(path, config)
    weights, damage = _weights(path, names)
    if found.quantization is None:
        found = found._replace(quantization=_quantization_beside(path, names))
    if weights and not any(name.startswith(_TOKENIZER_STARTS) or name.endswith(".tiktoken") for name in names):
        damage.append(Damage(DamageKind.TOKENIZER_MISSING, f"{path}: no tokenizer among its {len(names)} files"))
    return found._replace(weights=weights, damage=tuple(damage) if is_whole else ())


def read_config(path: str) -> dict[str, Any]:
    """A JSON object. Raises OSError, and ValueError with the reason where it is none."""
    try:
        found = json.loads(read_start(path, CONFIG_LIMIT))
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: not JSON") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: not a JSON object")
    return found


def _quantization_beside(path: str, names: frozenset[str]) -> OwnQuantization | None:
    """Older checkpoints keep their quantization in a file of its own."""
    for name, method in _QUANTIZATION_FILES.items():
        if name not in names:
            continue
        try:
            found = read_config(os.path.join(path, name))
        except (OSError, ValueError):
            continue
        return own_quantization(found) or (OwnQuantization(method) if method else None)
    return None


def _weights(path: str, names: frozenset[str]) -> tuple[tuple[Stored, ...], list[Damage]]:
    """The weights by type, and what is wrong with their files; nothing where there are none."""
    shards, total = _indexed(path, names)
    if not shards:
        own = sorted(name for name in names if name.endswith(".safetensors"))
        shards = [name for name in own if not name.startswith("consolidated")] or own
        shards = shards or sorted(n for n in names if n.endswith(".bin") and n.startswith("pytorch_model"))
    damage = _missing(path, [name for name in shards if name not in names], len(shards))
    found = []
    for name in shards:
        if name in names:
            stored, problem = _shard(os.path.join(path, name))
            found.append(stored)
            damage += [Damage(DamageKind.WEIGHTS_DAMAGED, f"{path}/{name}: {problem}")] if problem else []
    if not damage:
        return summed(found), []
    return (Stored("", total),) if total else (), damage


def _indexed(path: str, names: frozenset[str]) -> tuple[list[str], int]:
    """The shards that an index names, and the size of their tensors in all; none without an index."""
    index = next((name for name in _INDEXES if name in names), None)
    if index is None:
        return [], 0
    try:
        found = json.loads(read_start(os.path.join(path, index), INDEX_LIMIT))
        shards = sorted({name for name in found["weight_map"].values() if isinstance(name, str) and "/" not in name})
        total = found.get("metadata", {}).get("total_size", 0)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return [], 0
    return shards, int(total) if isinstance(total, int | float) else 0


def _missing(path: str, missing: list[str], count: int) -> list[Damage]:
    if not missing:
        return []
    more = f" and {len(missing) - SHARDS_NAMED} more" if len(missing) > SHARDS_NAMED else ""
    words = f"{path}: {len(missing)} of {count} shards are missing: {', '.join(missing[:SHARDS_NAMED])}{more}"
    return [Damage(DamageKind.WEIGHTS_MISSING, words)]


def _shard(path: str) -> tuple[tuple[Stored, ...], str]:
    """The tensors of one file by type, and what is wrong with it."""
    try:
        if not path.endswith(".safetensors"):
            return (Stored("", os.stat(path).st_size),), ""
        shard = read_shard(path)
    except OSError as error:
        return (), str(error.strerror)
    return shard.weights, shard.problem


def _read_gguf_parts(path: str) -> Checkpoint | None:
    """One GGUF file, or the parts that it is the first of. Raises OSError."""
    if not path.endswith(".gguf"):
        return None
    try:
        header = read_gguf(path)
    except NoGgufError as problem:
        return Checkpoint(path, damage=(Damage(DamageKind.WEIGHTS_DAMAGED, f"{path}: {problem}"),))
    parts = _parts(path, int(header.metadata.get("split.count") or 1))
    missing = [os.path.basename(part) for part in parts if not os.path.exists(part)]
    damage = _missing(os.path.dirname(path), missing, len(parts))
    total = 0
    for part in parts:
        try:
            found = header if part == path else read_gguf(part)
        except (OSError, NoGgufError) as problem:
            if os.path.exists(part):
                damage.append(Damage(DamageKind.WEIGHTS_DAMAGED, f"{part}: {problem}"))
            continue
        total += found.tensors
        if found.size < found.wanted:
            words = f"{part}: truncated: {found.size} bytes, and its header says {found.wanted}"
            damage.append(Damage(DamageKind.WEIGHTS_DAMAGED, words))
    weights = (Stored("GGUF", total),) if total and not damage else ()
    return from_gguf(path, header.metadata)._replace(weights=weights, damage=tuple(damage))


def _parts(path: str, count: int) -> list[str]:
    """The files of a split GGUF, itself among them; itself alone where it is none."""
    stem, split, _ = path.rpartition(_SPLIT)
    number = stem.rpartition("-")[2]
    if count < 2 or not split or not number.isdigit():
        return [path]
    base = stem[: -len(number)]
    return [f"{base}{part:0{len(number)}d}{_SPLIT}{count:0{len(number)}d}.gguf" for part in range(1, count + 1)]
