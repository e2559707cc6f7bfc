"""Turn nothing into a model file: a llama of random weights, small enough to write in a moment and serve on a CPU.

`python -m llmgw_reconcile.demo [PATH]`. The format is GGUF version 3 (ggml, docs/gguf.md), written with the standard
library alone, the same bytes on every run.
"""

from __future__ import annotations

import os
import random
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from llmgw_reconcile.errors import LlmgwError
from llmgw_reconcile.host.files import private_directory, write_atomic

DEFAULT_PATH = "/tmp/llmgw-demo/tiny.gguf"  # noqa: S108 - made private before it is used
USAGE = "usage: python -m llmgw_reconcile.demo [PATH]"

CONTEXT = 512
WIDTH = 64
HEADS = 4
KEY_VALUE_HEADS = 2
FEED_FORWARD = 128
BLOCKS = 2
ALIGNMENT = 32  # of every tensor; GGUF's default

# All that it can say; it knows no grammar.
VOCABULARY = """
a all and another answer by chance every file gateway it model never no node of one only or plan random ready reconcile
say sense serve some state steady the these think this tiny token understand until very we weights what without word you
"""
WORDS = VOCABULARY.split()
PRINTABLE = "".join(map(chr, range(33, 127)))
SPACE, NEWLINE = "Ġ", "Ċ"  # as the byte-level alphabet of GPT-2 writes them
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Numbers that GGUF gives to the types of metadata values, and ggml to the types of tensors.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TENSOR_F32 = 0
TOKEN_NORMAL, TOKEN_CONTROL = 1, 3


class Tensor(NamedTuple):
    """A named matrix of 32-bit floats, row after row; a vector has one row."""

    name: str
    columns: int
    rows: int
    values: list[float]

    @property
    def data(self) -> bytes:
        """The values in little-endian order, padded to the alignment."""
        return _padded(struct.pack(f"<{len(self.values)}f", *self.values))


def model_bytes() -> bytes:
    """The whole GGUF file: header, metadata, tensor table, tensors."""
    metadata = tuple(_metadata())
    tensors = tuple(_tensors())
    table, offset = [], 0
    for tensor in tensors:
        shape = (tensor.columns,) if tensor.rows == 1 else (tensor.columns, tensor.rows)
        table.append(_string(tensor.name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, TENSOR_F32, offset))
        offset += len(tensor.data)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    return _padded(head + b"".join((*metadata, *table))) + b"".join(tensor.data for tensor in tensors)


def _metadata() -> Iterator[bytes]:
    tokens = (*PRINTABLE, SPACE, NEWLINE, *(SPACE + word for word in WORDS), *SPECIAL)
    types = [TOKEN_NORMAL] * (len(tokens) - len(SPECIAL)) + [TOKEN_CONTROL] * len(SPECIAL)
    end_of_text, end_of_turn = len(tokens) - len(SPECIAL), len(tokens) - 1
    yield _entry("general.architecture", STRING, _string("llama"))
    yield _entry("general.name", STRING, _string("tiny"))
    for name, number in (
        ("context_length", CONTEXT),
        ("embedding_length", WIDTH),
        ("block_count", BLOCKS),
        ("feed_forward_length", FEED_FORWARD),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", KEY_VALUE_HEADS),
        ("rope.dimension_count", WIDTH // HEADS),
    ):
        yield _entry(f"llama.{name}", UINT32, struct.pack("<I", number))
    yield _entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 1e-5))
    yield _entry("tokenizer.ggml.model", STRING, _string("gpt2"))
    yield _entry("tokenizer.ggml.pre", STRING, _string("gpt-2"))
    yield _array("tokenizer.ggml.tokens", STRING, [_string(token) for token in tokens])
    yield _array("tokenizer.ggml.token_type", INT32, [struct.pack("<i", number) for number in types])
    yield _array("tokenizer.ggml.merges", STRING, [_string("t h")])  # llama.cpp wants the list, and one entry in it
    yield _entry("tokenizer.ggml.bos_token_id", UINT32, struct.pack("<I", end_of_text))
    yield _entry("tokenizer.ggml.eos_token_id", UINT32, struct.pack("<I", end_of_turn))
    yield _entry("tokenizer.ggml.add_bos_token", BOOL, struct.pack("<?", False))  # noqa: FBT003 - a byte of the file
    yield _entry("tokenizer.chat_template", STRING, _string(CHAT_TEMPLATE))


def _tensors() -> Iterator[Tensor]:
    numbers = random.Random(0)  # noqa: S311 - weights, not secrets

    def matrix(name: str, columns: int, rows: int, deviation: float = 0.1) -> Tensor:
        return Tensor(name, columns, rows, [numbers.gauss(0, deviation) for _ in range(columns * rows)])

    def ones(name: str) -> Tensor:
        return Tensor(name, WIDTH, 1, [1.0] * WIDTH)

    characters = len(PRINTABLE) + 2
    yield matrix("token_embd.weight", WIDTH, characters + len(WORDS) + len(SPECIAL))
    for block in range(BLOCKS):
        shared = WIDTH // HEADS * KEY_VALUE_HEADS
        yield ones(f"blk.{block}.attn_norm.weight")
        yield matrix(f"blk.{block}.attn_q.weight", WIDTH, WIDTH)
        yield matrix(f"blk.{block}.attn_k.weight", WIDTH, shared)
        yield matrix(f"blk.{block}.attn_v.weight", WIDTH, shared)
        yield matrix(f"blk.{block}.attn_output.weight", WIDTH, WIDTH)
        yield ones(f"blk.{block}.ffn_norm.weight")
        yield matrix(f"blk.{block}.ffn_gate.weight", WIDTH, FEED_FORWARD)
        yield matrix(f"blk.{block}.ffn_up.weight", WIDTH, FEED_FORWARD)
        yield matrix(f"blk.{block}.ffn_down.weight", FEED_FORWARD, WIDTH)
    yield ones("output_norm.weight")
    # Only words have weights on the way out: they win over characters and special tokens, so that answers are readable.
    words = matrix("output.weight", WIDTH, len(WORDS), deviation=0.4).values
    silent = [0.0] * WIDTH
    values = silent * characters + words + silent * len(SPECIAL)
    yield Tensor("output.weight", WIDTH, len(values) // WIDTH, values)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _entry(key: str, kind: int, value: bytes) -> bytes:
    return _string(key) + struct.pack("<I", kind) + value


def _array(key: str, kind: int, items: list[bytes]) -> bytes:
    return _entry(key, ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(items))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def write_model(path: str) -> int:
    """Write the model into a folder that is ours alone, whole or not at all; returns its size in bytes.

    /tmp is everybody's: whoever made the folder first could put another model into it, or lead us elsewhere by a link.
    Raises NodeError for a folder that is a link, foreign or open to others, and for a file that cannot be written.
    """
    data = model_bytes()
    private_directory(os.path.dirname(path))
    write_atomic(path, data)
    return len(data)


def main(argv: list[str]) -> int:
    """Write the model to the path given; the exit code of contract §3."""
    if argv in (["-h"], ["--help"]):
        sys.stdout.write(f"{USAGE}\n")
        return 0
    if len(argv) > 1 or any(argument.startswith("-") for argument in argv):
        sys.stderr.write(f"{USAGE}\n")
        return 64
    path = os.path.abspath(argv[0] if argv else DEFAULT_PATH)
    try:
        size = write_model(path)
    except LlmgwError as error:
        sys.stderr.write(f"llmgw: {error}\n")
        return error.exit_code
    sys.stdout.write(
        f"wrote {path}: a llama of random weights, {size // 1024} KiB; next: llmgw apply states/demo.yaml\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
