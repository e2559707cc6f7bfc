"""What a model on this node's disk says of itself: its geometry, its weights, and what is wrong with its files."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Stored(NamedTuple):
    """All tensors of one type, summed up; `dtype` as safetensors writes it (`BF16`, `F8_E4M3`), or `GGUF`."""

    dtype: str
    size: int  # bytes


class OwnQuantization(NamedTuple):
    """How the checkpoint itself was quantized."""

    method: str  # quant_method: fp8, awq, gptq, compressed-tensors, modelopt
    scheme: str | None = None  # `format` of compressed-tensors, `quant_algo` of modelopt
    weight_only: bool = False  # its activations are never quantized


class Cache(NamedTuple):
    """What one token leaves behind in the key-value cache, layer by layer."""

    layers: int  # that keep every token
    windowed_layers: int = 0  # that keep the newest `window` tokens only
    window: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    latent: int | None = None  # numbers a token and layer where keys and values are stored compressed (MLA)


class DamageKind(StrEnum):
    """What is wrong with the files; the value is the code of its diagnostic."""

    WEIGHTS_MISSING = "weights-missing"  # an index names shards that are not there
    WEIGHTS_DAMAGED = "weights-damaged"  # a file is shorter than its header says, or has none
    TOKENIZER_MISSING = "tokenizer-missing"


class Damage(NamedTuple):
    """One thing that is wrong with the files of a local model, in words that name the file."""

    kind: DamageKind
    words: str


class Checkpoint(NamedTuple):
    """A model on disk. Every unknown is None; `weights` is empty when their size is not known."""

    path: str  # the folder, or the GGUF file
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    experts: int | None = None
    context: int | None = None  # the longest one that an engine takes from it, in tokens
    dtype: str | None = None  # bfloat16, float16, float32
    quantization: OwnQuantization | None = None
    cache: Cache | None = None
    weights: tuple[Stored, ...] = ()
    damage: tuple[Damage, ...] = ()

    @property
    def size(self) -> int | None:
        """Bytes of all tensors as they are stored."""
        return sum(stored.size for stored in self.weights) if self.weights else None
