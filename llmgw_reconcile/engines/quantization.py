"""What a GPU must be capable of for each quantization method, by engine: facts, and no decision."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from llmgw_reconcile.model.desired import EngineKind

Capability = tuple[int, int]

FP8_CAPABILITY: Capability = (8, 9)  # Ada and Hopper; older tensor cores have no fp8 arithmetic
FP4_CAPABILITY: Capability = (10, 0)  # Blackwell, likewise


class Minimums(NamedTuple):
    """The lowest compute capability at which an engine starts with a method, and the version that was read."""

    version: str
    by_method: Mapping[str, Capability]


def _minimums(version: str, methods_by_capability: Mapping[Capability, str]) -> Minimums:
    by_method = {method: lowest for lowest, methods in methods_by_capability.items() for method in methods.split()}
    return Minimums(version, MappingProxyType(by_method))


# Read in the engines' own checks. A checkpoint of compressed-tensors says its scheme in `format`; `float-quantized`
# is fp8, and runs through the weight-only scheme where the GPU has no fp8 arithmetic.
MINIMUMS: Mapping[EngineKind, Minimums] = MappingProxyType(
    {
        EngineKind.VLLM: _minimums(
            "0.33.0",
            {
                (6, 0): "gptq gptq_marlin auto_gptq inc",
                (7, 0): "compressed-tensors moe_wna16 quark bitsandbytes",  # the last one by a plugin since 0.33
                (7, 5): "fp8 online fp8_per_tensor fp8_per_block fp8_per_channel int8_per_channel_weight_only "
                "nvfp4_per_token mxfp8 awq awq_marlin auto_awq modelopt_fp4 modelopt_mixed torchao humming "
                "compressed-tensors/float-quantized",
                (8, 0): "modelopt modelopt_mxfp8 fbgemm_fp8 mxfp4 gpt_oss_mxfp4 experts_int8",
                (10, 0): "fp_quant",
            },
        ),
        EngineKind.SGLANG: _minimums(
            "0.5.23",
            {
                (6, 0): "gptq gguf auto-round",
                (7, 0): "bitsandbytes moe_wna16 compressed-tensors quark",
                (7, 5): "w8a8_int8 awq humming",
                (8, 0): "fp8 awq_marlin gptq_marlin modelopt_fp4 modelopt_mixed mxfp4 blockwise_int8 "
                "compressed-tensors/float-quantized",
                (8, 9): "w8a8_fp8 modelopt_fp8",
                (9, 0): "w4afp8",
                (10, 0): "mxfp8 nvfp4_online",
            },
        ),
        EngineKind.LLAMA_CPP: _minimums("", {}),
    }
)

# Methods that compute in fp8 (fp4) from that capability on, and below it only store their weights so.
FP8_METHODS = frozenset(
    {
        "fp8",
        "fp8_per_tensor",
        "fp8_per_block",
        "fp8_per_channel",
        "mxfp8",
        "modelopt",
        "modelopt_mxfp8",
        "fbgemm_fp8",
        "compressed-tensors/float-quantized",
    }
)
FP4_METHODS = frozenset({"modelopt_fp4", "nvfp4_per_token"})
