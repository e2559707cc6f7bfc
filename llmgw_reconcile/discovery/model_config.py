"""Turn the config.json of a model, or the metadata of a GGUF, into its geometry.

Names as transformers writes them. Unknown is None: what a config leaves out may be a default of its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llmgw_reconcile.model.checkpoint import Cache, Checkpoint, OwnQuantization

Config = Mapping[str, Any]

_NESTED = ("text_config", "llm_config", "language_config")  # where a model of several modalities keeps its language
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
_KV_HEADS = ("num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num")
_WIDTH = ("hidden_size", "n_embd", "d_model")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# Layers of another kind between those of attention, not told apart in a list: how many keep a cache is not known.
_MIXED = (
    "attn_layer_indices",
    "attn_layer_period",
    "full_attention_interval",
    "hybrid_override_pattern",
    "layers_block_type",
    "linear_attn_config",
    "mamba_d_state",
)
# Kinds of rope scaling that stretch the context by their factor; the others are part of max_position_embeddings.
_STRETCHING = frozenset({"linear", "dynamic", "yarn", "deepseek_yarn"})


def from_config(path: str, config: Config) -> Checkpoint:
    """What a config.json says. Its weights and the state of its files are for others to add."""
    text = _language_part(config)
    heads, kv_heads, layers = (_first(text, names) for names in (_HEADS, _KV_HEADS, _LAYERS))
    if text.get("multi_query") is True and kv_heads is None:
        kv_heads = 1
    dtype = next((d for d in (text.get("dtype"), text.get("torch_dtype")) if isinstance(d, str)), None)
    return Checkpoint(
        path,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        experts=_first(text, _EXPERTS),
        context=_longest_context(text),
        dtype=dtype.removeprefix("torch.") if dtype else None,
        quantization=own_quantization(config.get("quantization_config") or text.get("quantization_config")),
        cache=_cache(text, layers, heads, kv_heads or heads),
    )


def from_gguf(path: str, metadata: Config) -> Checkpoint:
    """What the metadata of a GGUF says."""
    prefix = metadata.get("general.architecture")
    own = {key.removeprefix(f"{prefix}."): value for key, value in metadata.items()}
    layers, heads = _number(own.get("block_count")), _number(own.get("attention.head_count"))
    kv_heads, width = _number(own.get("attention.head_count_kv")) or heads, _number(own.get("embedding_length"))
    head_dim = _number(own.get("attention.key_length")) or (width // heads if width and heads else None)
    is_plain = layers is not None and "ssm.state_size" not in own and "attention.kv_lora_rank" not in own
    return Checkpoint(
        path,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        experts=_number(own.get("expert_count")),
        context=_number(own.get("context_length")),
        cache=Cache(layers, kv_heads=kv_heads, head_dim=head_dim) if is_plain and layers else None,
    )


def own_quantization(found: object) -> OwnQuantization | None:
    """What a `quantization_config`, or a file of that content, says; modelopt's own file nests it once more."""
    if not isinstance(found, Mapping):
        return None
    inner = found.get("quantization")
    found = inner if isinstance(inner, Mapping) else found
    method, algorithm = _text(found.get("quant_method")), _text(found.get("quant_algo"))
    if method is None:
        return OwnQuantization("modelopt", algorithm) if algorithm else None
    groups = found.get("config_groups")
    groups = list(groups.values()) if isinstance(groups, Mapping) else []
    weight_only = bool(groups) and all(isinstance(g, Mapping) and not g.get("input_activations") for g in groups)
    scheme = algorithm if method.startswith("modelopt") else _text(found.get("format"))
    return OwnQuantization(method, scheme, weight_only)


def _language_part(config: Config) -> Config:
    thinker = config.get("thinker_config")
    config = thinker if isinstance(thinker, Mapping) else config
    nested: Config = next((config[name] for name in _NESTED if isinstance(config.get(name), Mapping)), {})
    return {**config, **nested}


def _longest_context(text: Config) -> int | None:
    """The longest context that an engine derives: what is stored, stretched by its rope scaling."""
    lengths = [length for name in _CONTEXT if (length := _number(text.get(name)))]
    if not lengths:
        return _number(text.get("model_max_length"))
    stored = min(lengths)
    candidates = [stored, _number(text.get("model_max_length")) or 0]
    for rope in _ropes(text.get("rope_scaling") or text.get("rope_parameters")):
        kind, factor = rope.get("rope_type") or rope.get("type"), rope.get("factor")
        if kind in _STRETCHING and isinstance(factor, int | float):
            candidates.append(int((_number(rope.get("original_max_position_embeddings")) or stored) * factor))
    return max(candidates)


def _ropes(found: object) -> Iterable[Config]:
    """One rope scaling, or one for each kind of layer."""
    if not isinstance(found, Mapping):
        return ()
    inner = [value for value in found.values() if isinstance(value, Mapping)]
    return inner or (found,)


def _cache(text: Config, layers: int | None, heads: int | None, kv_heads: int | None) -> Cache | None:
    width, head_dim = _first(text, _WIDTH), _number(text.get("head_dim"))
    if layers is None or (any(name in text for name in _MIXED) and not text.get("layer_types")):
        return None
    if head_dim is None and width and heads:
        head_dim = width // heads
    rank, rope = _number(text.get("kv_lora_rank")), _number(text.get("qk_rope_head_dim"))
    latent = rank + rope if rank and rope else None
    kinds = text.get("layer_types")
    if not isinstance(kinds, list):
        return Cache(layers, kv_heads=kv_heads, head_dim=head_dim, latent=latent)
    windowed = sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds)
    window = _number(text.get("sliding_window")) or _number(text.get("attention_chunk_size"))
    return Cache(kinds.count("full_attention"), windowed, window, kv_heads, head_dim, latent)


def _first(config: Config, names: Iterable[str]) -> int | None:
    return next((number for name in names if (number := _number(config.get(name))) is not None), None)


def _number(value: object) -> int | None:
    """A count; the largest of several, one a layer. Zero is how some say that there is none."""
    if isinstance(value, list):
        return max(filter(None, map(_number, value)), default=None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
