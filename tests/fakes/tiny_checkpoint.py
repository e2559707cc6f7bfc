"""Write a checkpoint that vLLM loads in seconds: a llama of random weights with a tokenizer of single bytes.

Run as a script by an interpreter that has numpy, safetensors and tokenizers, such as vLLM's: `python tiny_checkpoint.py
FOLDER`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

LAYERS, WIDTH, HEADS, KEY_VALUE_HEADS, HEAD_WIDTH, FEED_FORWARD, CONTEXT = 2, 64, 4, 2, 32, 128, 512
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_checkpoint(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    size = _write_tokenizer(folder)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": size,
        "hidden_size": WIDTH,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HEAD_WIDTH,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    _write_weights(folder / "model.safetensors", size)


def _write_tokenizer(folder: Path) -> int:
    """A token for each byte and no merges; the size of the vocabulary."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": SPECIAL[0], "eos_token": SPECIAL[2], "pad_token": SPECIAL[0]}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(names | settings))
    return len(vocabulary)


def _write_weights(path: Path, vocabulary: int) -> None:
    import numpy
    from safetensors.numpy import save_file

    numbers = numpy.random.default_rng(0)

    def matrix(rows: int, columns: int) -> numpy.ndarray:
        return numbers.normal(0, 0.02, (rows, columns)).astype(numpy.float32)

    ones = numpy.ones(WIDTH, numpy.float32)
    tensors = {
        "model.embed_tokens.weight": matrix(vocabulary, WIDTH),
        "model.norm.weight": ones,
        "lm_head.weight": matrix(vocabulary, WIDTH),
    }
    for layer in range(LAYERS):
        tensors |= {
            f"model.layers.{layer}.{name}.weight": weight
            for name, weight in {
                "input_layernorm": ones,
                "post_attention_layernorm": ones,
                "self_attn.q_proj": matrix(HEADS * HEAD_WIDTH, WIDTH),
                "self_attn.k_proj": matrix(KEY_VALUE_HEADS * HEAD_WIDTH, WIDTH),
                "self_attn.v_proj": matrix(KEY_VALUE_HEADS * HEAD_WIDTH, WIDTH),
                "self_attn.o_proj": matrix(WIDTH, HEADS * HEAD_WIDTH),
                "mlp.gate_proj": matrix(FEED_FORWARD, WIDTH),
                "mlp.up_proj": matrix(FEED_FORWARD, WIDTH),
                "mlp.down_proj": matrix(WIDTH, FEED_FORWARD),
            }.items()
        }
    save_file(tensors, path, metadata={"format": "pt"})


if __name__ == "__main__":
    write_checkpoint(Path(sys.argv[1]))
