"""What a GPU must be capable of for each quantization method, by engine and version: facts, and no decision."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from llmgw_reconcile.engines.version import at_least
from llmgw_reconcile.model.desired import EngineKind

if TYPE_CHECKING:
    from llmgw_reconcile.model.checkpoint import OwnQuantization

Capability = tuple[int, int]

FP8_CAPABILITY: Capability = (8, 9)  # Ada and Hopper; older tensor cores have no fp8 arithmetic
FP4_CAPABILITY: Capability = (10, 0)  # Blackwell, likewise


class Need(NamedTuple):
    """What a method needs, from a version on."""

    minimum: Capability  # below it the engine refuses
    native: Capability | None = None  # below it the engine stores the weights so, and computes in 16 bit
    since: str = ""  # the version that it holds from; empty: from the beginning


class Needs(NamedTuple):
    """The methods of one engine, each with its needs from the oldest to the newest."""

    read: str  # the version whose own checks were read
    by_method: Mapping[str, tuple[Need, ...]]

    def of(self, method: str, version: str | None) -> Need | None:
        """The needs of a method in that version, the newest ones where it is not known; None: not a known method."""
        rows = self.by_method.get(method, ())
        held = [row for row in rows if version is None or at_least(version, row.since)]
        return held[-1] if held else None


def _needs(read: str, rows: Mapping[str, tuple[Need, ...] | Need]) -> Needs:
    by_method = {
        method: (needs,) if isinstance(needs, Need) else needs
        for methods, needs in rows.items()
        for method in methods.split()
    }
    return Needs(read, MappingProxyType(by_method))


# Read in the engines' own checks. A checkpoint of compressed-tensors says its scheme in `format`; with `:weights` its
# activations stay in 16 bit. vLLM's weight-only kernels (Marlin) took fp8 in 0.5.1 (pull request 5975), and Turing in
# 0.14 (29901).
NEEDS: Mapping[EngineKind, Needs] = MappingProxyType(
    {
        EngineKind.VLLM: _needs(
            "0.33.0",
            {
                "gptq auto_gptq inc": Need((6, 0)),
                "gptq_marlin": (Need((8, 0)), Need((6, 0), since="0.14")),
                "compressed-tensors moe_wna16 quark bitsandbytes": Need((7, 0)),  # the last by a plugin since 0.33
                "fp8": (
                    Need((8, 9), FP8_CAPABILITY),
                    Need((8, 0), FP8_CAPABILITY, since="0.5.1"),
                    Need((7, 5), FP8_CAPABILITY, since="0.14"),
                ),
                "fp8_per_tensor fp8_per_block fp8_per_channel mxfp8": Need((7, 5), FP8_CAPABILITY),
                "compressed-tensors/float-quantized": (
                    Need((8, 0), FP8_CAPABILITY),
                    Need((7, 5), FP8_CAPABILITY, since="0.14"),
                ),
                "compressed-tensors/float-quantized:weights compressed-tensors/pack-quantized awq_marlin": (
                    Need((8, 0)),
                    Need((7, 5), since="0.14"),
                ),
                "online int8_per_channel_weight_only awq auto_awq modelopt_mixed torchao humming": Need((7, 5)),
                "compressed-tensors/int-quantized compressed-tensors/nvfp4-pack-quantized:weights": Need((7, 5)),
                "nvfp4_per_token modelopt_fp4 compressed-tensors/nvfp4-pack-quantized": Need((7, 5), FP4_CAPABILITY),
                "modelopt modelopt_mxfp8 fbgemm_fp8": Need((8, 0), FP8_CAPABILITY),
                "mxfp4 gpt_oss_mxfp4 experts_int8": Need((8, 0)),
                "fp_quant": Need((10, 0)),
            },
        ),
        EngineKind.SGLANG: _needs(
            "0.5.23",
            {
                "gptq gguf auto-round": Need((6, 0)),
                "bitsandbytes moe_wna16 compressed-tensors quark": Need((7, 0)),
                "w8a8_int8 awq humming": Need((7, 5)),
                "fp8 compressed-tensors/float-quantized": Need((8, 0), FP8_CAPABILITY),
                "awq_marlin gptq_marlin modelopt_mixed mxfp4 blockwise_int8 compressed-tensors/pack-quantized "
                "compressed-tensors/float-quantized:weights compressed-tensors/nvfp4-pack-quantized:weights": Need(
                    (8, 0)
                ),
                "modelopt_fp4": Need((8, 0), FP4_CAPABILITY),
                "w8a8_fp8 modelopt_fp8": Need((8, 9)),
                "w4afp8": Need((9, 0)),
                "mxfp8 nvfp4_online compressed-tensors/nvfp4-pack-quantized": Need((10, 0)),
            },
        ),
        EngineKind.LLAMA_CPP: _needs("", {}),
    }
)

# Methods that compute in fp8 from that capability on, and below it only store their weights so.
FP8_METHODS = frozenset(
    method
    for needs in NEEDS.values()
    for method, rows in needs.by_method.items()
    if any(row.native == FP8_CAPABILITY for row in rows)
)
# Methods that quantize 16-bit weights while they are loaded -> bits of a weight afterwards.
LOAD_TIME_BITS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "mxfp8", "w8a8_fp8"), 8),
        **dict.fromkeys(("experts_int8", "int8_per_channel_weight_only"), 8),
        **dict.fromkeys(("bitsandbytes", "nvfp4_per_token", "nvfp4_online"), 4),
    }
)
# Methods whose weights were quantized before: they need a checkpoint that says so.
STORED_METHODS = frozenset(
    {
        *("awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "compressed-tensors", "moe_wna16"),
        *("modelopt", "modelopt_fp4", "modelopt_fp8", "modelopt_mixed", "modelopt_mxfp8", "fbgemm_fp8", "w4afp8"),
    }
)
# quant_algo of modelopt -> the method's name in each engine.
_MODELOPT: Mapping[EngineKind, Mapping[str, str]] = MappingProxyType(
    {
        EngineKind.VLLM: {
            "FP8": "modelopt",
            "MXFP8": "modelopt_mxfp8",
            "NVFP4": "modelopt_fp4",
            "MIXED_PRECISION": "modelopt_mixed",
        },
        EngineKind.SGLANG: {"FP8": "modelopt_fp8", "NVFP4": "modelopt_fp4", "MIXED_PRECISION": "modelopt_mixed"},
        EngineKind.LLAMA_CPP: {},
    }
)


def method_of(own: OwnQuantization, kind: EngineKind) -> str:
    """The method by which an engine runs a checkpoint that was quantized so, as `NEEDS` calls it where it knows it."""
    if own.method == "modelopt" and own.scheme is not None:
        return _MODELOPT[kind].get(own.scheme.upper(), own.method)
    named = f"{own.method}/{own.scheme}"
    names = (f"{named}:weights", named) if own.weight_only else (named,)
    return next((name for name in names if name in NEEDS[kind].by_method), own.method)
