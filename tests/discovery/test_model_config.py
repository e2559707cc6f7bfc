"""Configs in the forms that public checkpoints have, with numbers of our own."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.discovery.model_config import from_config, from_gguf, own_quantization
from llmgw_reconcile.model.checkpoint import Cache, Checkpoint, OwnQuantization

PLAIN = {
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}


def test_a_plain_config_is_read() -> None:
    assert from_config("/m", PLAIN) == Checkpoint(
        "/m", layers=16, heads=32, kv_heads=8, context=8192, dtype="bfloat16", cache=Cache(16, kv_heads=8, head_dim=128)
    )


@pytest.mark.parametrize(
    ("config", "layers", "heads", "kv_heads"),
    [
        pytest.param({"n_layer": 12, "n_head": 12, "n_embd": 768}, 12, 12, None, id="gpt-2"),
        pytest.param({"n_layer": 60, "num_attention_heads": 71, "multi_query": True}, 60, 71, 1, id="multi-query"),
        pytest.param(
            {"num_layers": 28, "num_attention_heads": 32, "multi_query_group_num": 2}, 28, 32, 2, id="chatglm"
        ),
        pytest.param({"text_config": PLAIN, "vision_config": {"num_attention_heads": 16}}, 16, 32, 8, id="multimodal"),
        pytest.param({"thinker_config": {"text_config": PLAIN}}, 16, 32, 8, id="thinker"),
        pytest.param({"num_attention_heads": "32"}, None, None, None, id="text-is-no-count"),
        pytest.param({"num_attention_heads": True}, None, None, None, id="truth-is-no-count"),
        pytest.param({"num_key_value_heads": [8, 0, 4]}, None, None, 8, id="one-a-layer"),
        pytest.param({}, None, None, None, id="nothing"),
    ],
)
def test_the_names_of_other_families_are_known(
    config: dict[str, Any], layers: int | None, heads: int | None, kv_heads: int | None
) -> None:
    found = from_config("/m", config)
    assert (found.layers, found.heads, found.kv_heads) == (layers, heads, kv_heads)


@pytest.mark.parametrize(
    ("config", "context"),
    [
        pytest.param({"max_position_embeddings": 4096}, 4096, id="as-it-stands"),
        pytest.param({"max_position_embeddings": 4096, "seq_length": 2048}, 2048, id="the-shorter-of-two"),
        pytest.param({"max_position_embeddings": 4096, "model_max_length": 9000}, 9000, id="a-longer-one-is-allowed"),
        pytest.param(
            {"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0}}, 131072, id="yarn"
        ),
        pytest.param(
            {
                "max_position_embeddings": 163840,
                "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
            },
            163840,
            id="yarn-from-its-original",
        ),
        pytest.param(
            {"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            131072,
            id="llama3-is-stretched-already",
        ),
        pytest.param(
            {"max_position_embeddings": 2048, "rope_parameters": {"full": {"rope_type": "linear", "factor": 2}}},
            4096,
            id="one-rope-for-each-kind-of-layer",
        ),
        pytest.param({"text_config": {"max_position_embeddings": 1024}}, 1024, id="nested"),
        pytest.param({}, None, id="unknown"),
    ],
)
def test_the_longest_context_is_derived(config: dict[str, Any], context: int | None) -> None:
    assert from_config("/m", config).context == context


@pytest.mark.parametrize(
    ("more", "cache"),
    [
        pytest.param({"head_dim": 64}, Cache(16, kv_heads=8, head_dim=64), id="own-head-dim"),
        pytest.param(
            {"kv_lora_rank": 512, "qk_rope_head_dim": 64},
            Cache(16, kv_heads=8, head_dim=128, latent=576),
            id="compressed",
        ),
        pytest.param(
            {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "sliding_window": 1024},
            Cache(1, 2, 1024, 8, 128),
            id="sliding-windows",
        ),
        pytest.param(
            {"layer_types": ["linear_attention"] * 3 + ["full_attention"], "full_attention_interval": 4},
            Cache(1, 0, None, 8, 128),
            id="linear-layers-keep-nothing",
        ),
        pytest.param({"full_attention_interval": 4}, None, id="mixed-without-a-list"),
        pytest.param({"mamba_d_state": 128}, None, id="mamba"),
        pytest.param({"num_hidden_layers": None}, None, id="layers-unknown"),
    ],
)
def test_what_a_token_leaves_behind_is_known_or_not_guessed(more: dict[str, Any], cache: Cache | None) -> None:
    assert from_config("/m", PLAIN | more).cache == cache


@pytest.mark.parametrize("name", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_experts_have_several_names(name: str) -> None:
    assert from_config("/m", PLAIN | {name: 64}).experts == 64


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param({"quant_method": "fp8"}, OwnQuantization("fp8"), id="fp8"),
        pytest.param(
            {
                "quant_method": "compressed-tensors",
                "format": "float-quantized",
                "config_groups": {"group_0": {"weights": {"num_bits": 8}, "input_activations": {"num_bits": 8}}},
            },
            OwnQuantization("compressed-tensors", "float-quantized"),
            id="weights-and-activations",
        ),
        pytest.param(
            {
                "quant_method": "compressed-tensors",
                "format": "float-quantized",
                "config_groups": {"group_0": {"weights": {"num_bits": 8}, "input_activations": None}},
            },
            OwnQuantization("compressed-tensors", "float-quantized", weight_only=True),
            id="weights-alone",
        ),
        pytest.param(
            {"quant_method": "modelopt", "quant_algo": "NVFP4"}, OwnQuantization("modelopt", "NVFP4"), id="modelopt"
        ),
        pytest.param(
            {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}},
            OwnQuantization("modelopt", "FP8"),
            id="modelopts-own-file",
        ),
        pytest.param({"bits": 4}, None, id="no-method"),
        pytest.param("fp8", None, id="no-mapping"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_the_checkpoint_says_how_it_was_quantized(found: object, expected: OwnQuantization | None) -> None:
    assert own_quantization(found) == expected


def test_a_gguf_says_the_same_in_its_own_words() -> None:
    metadata = {
        "general.architecture": "qwen3",
        "qwen3.block_count": 28,
        "qwen3.attention.head_count": 16,
        "qwen3.attention.head_count_kv": 8,
        "qwen3.attention.key_length": 128,
        "qwen3.context_length": 40960,
        "qwen3.embedding_length": 1024,
    }
    assert from_gguf("/m.gguf", metadata) == Checkpoint(
        "/m.gguf", layers=28, heads=16, kv_heads=8, context=40960, cache=Cache(28, kv_heads=8, head_dim=128)
    )


def test_a_gguf_with_a_state_beside_its_attention_has_a_cache_that_is_not_known() -> None:
    assert from_gguf("/m", {"general.architecture": "x", "x.block_count": 4, "x.ssm.state_size": 16}).cache is None
