"""Flags, and values of flags, that came and went with the versions of an engine: facts, and no decision.

Read by comparing releases: `last` is the last one that was seen with a flag, `gone` the first one seen without it. In
between nothing is known. An empty version: before all that were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from llmgw_reconcile.engines.version import at_least
from llmgw_reconcile.model.desired import EngineKind


class Gone(NamedTuple):
    """A flag, or one value of it, that a version no longer takes."""

    flag: str
    last: str
    gone: str
    cure: str = "leave it out"
    value: str | None = None  # None: the flag itself


class Added(NamedTuple):
    """A flag that a version did not take yet."""

    flag: str
    absent: str  # the last version that was seen without it
    first: str  # the first one that was seen with it


class Deprecated(NamedTuple):
    """A flag that still works."""

    flag: str
    since: str
    cure: str = "leave it out"


def _gone(last: str, gone: str, flags: str, instead: str = "") -> Iterator[Gone]:
    cure = f"write {instead}" if instead else "leave it out"
    return (Gone(flag, last, gone, cure) for flag in flags.split())


def _values(last: str, gone: str, flag: str, values: str, cure: str = "use another method") -> Iterator[Gone]:
    return (Gone(flag, last, gone, cure, value) for value in values.split())


GONE: Mapping[EngineKind, tuple[Gone, ...]] = {
    EngineKind.VLLM: (
        *_gone("0.8.5", "0.10.2", "--device --num-scheduler-steps --use-v2-block-manager"),
        *_gone("0.8.5", "0.10.2", "--enable-reasoning", "--reasoning-parser alone"),
        *_gone("0.8.5", "0.10.2", "--enable-prompt-adapter --max-prompt-adapters --max-prompt-adapter-token"),
        *_gone("0.8.5", "0.10.2", "--tokenizer-pool-size --tokenizer-pool-type --tokenizer-pool-extra-config"),
        *_gone("0.10.2", "0.12", "--guided-decoding-backend", "--structured-outputs-config"),
        *_gone("0.10.2", "0.12", "--max-seq-len-to-capture", "--max-cudagraph-capture-size"),
        *_gone("0.10.2", "0.12", "--rope-scaling --rope-theta", "--hf-overrides"),
        *_gone("0.10.2", "0.12", "--override-pooler-config", "--pooler-config"),
        *_gone("0.10.2", "0.12", "--preemption-mode --num-lookahead-slots --lora-extra-vocab-size"),
        *_gone("0.12", "0.16", "--task", "--runner, or --convert"),
        *_gone("0.12", "0.16", "--cuda-graph-sizes", "--cudagraph-capture-sizes"),
        *_gone("0.12", "0.16", "--disable-mm-preprocessor-cache"),
        *_gone("0.16", "0.20", "--swap-space --disable-frontend-multiprocessing"),
        *_gone("0.16", "0.20", "--disable-log-requests", "nothing: it logs requests only with --enable-log-requests"),
        *_gone("0.25", "0.29", "--calculate-kv-scales --max-num-partial-prefills --override-attention-dtype"),
        *_values("0.25", "0.33", "--quantization", "gguf", "install vllm-gguf-plugin"),
        *_values("0.25", "0.33", "--quantization", "bitsandbytes", "install vllm-bnb-plugin"),
        *_values("0.12", "0.25", "--quantization", "auto-round", "write inc"),
        *_values("0.12", "0.25", "--quantization", "ptpc_fp8", "write fp8_per_channel"),
        *_values("0.12", "0.25", "--quantization", "hqq bitblas ipex rtn deepspeedfp tpu_int8 gptq_marlin_24"),
        *_values("0.12", "0.25", "--quantization", "petit_nvfp4 cpu_awq"),
    ),
    EngineKind.SGLANG: (
        *_gone("", "0.5.23", "--enable-ep-moe", "--ep-size"),
        *_gone("", "0.5.23", "--enable-deepep-moe", "--moe-a2a-backend deepep"),
        *_gone("", "0.5.23", "--enable-flashinfer-moe", "--moe-runner-backend"),
        *_gone("", "0.5.23", "--max-micro-batch-size", "--pp-max-micro-batch-size"),
        *_gone("", "0.5.23", "--cuda-graph-max-bs", "--cuda-graph-max-bs-decode, or -prefill"),
        *_gone("", "0.5.23", "--cuda-graph-bs", "--cuda-graph-bs-decode, or -prefill"),
        *_gone("", "0.5.23", "--torchao-config --enable-nan-detection --hybrid-kvcache-ratio"),
        *_gone("", "0.5.23", "--prefill-round-robin-balance --stream-output"),
        *_gone("", "0.5.23", "--nsa-prefill-backend", "--dsa-prefill-backend"),
        *_gone("", "0.5.23", "--nsa-decode-backend", "--dsa-decode-backend"),
        *_gone("", "0.5.23", "--disaggregation-decode-tp --disaggregation-decode-dp --disaggregation-prefill-pp"),
    ),
    EngineKind.LLAMA_CPP: (),
}

ADDED: Mapping[EngineKind, tuple[Added, ...]] = {
    EngineKind.VLLM: (
        *(Added(flag, "0.10.2", "0.12") for flag in ("--nnodes", "--node-rank", "--master-addr", "--master-port")),
        *(Added(flag, "0.10.2", "0.12") for flag in ("--data-parallel-external-lb", "--kv-offloading-size")),
        *(Added(flag, "0.16", "0.20") for flag in ("--shutdown-timeout", "--moe-backend", "--numa-bind")),
        Added("--performance-mode", "0.16", "0.20"),
        *(Added(flag, "0.20", "0.25") for flag in ("--device-ids", "--quantization-config", "--linear-backend")),
        Added("--data-parallel-multi-port-external-lb", "0.20", "0.25"),
        *(Added(flag, "0.25", "0.29") for flag in ("--max-num-queued-reqs", "--enable-fault-tolerance")),
        *(Added(flag, "0.29", "0.33") for flag in ("--watchdog-config", "--sleep-mode-backend", "--log-level")),
        Added("--enable-scale-out", "0.29", "0.33"),
    ),
    EngineKind.SGLANG: (),
    EngineKind.LLAMA_CPP: (),
}

DEPRECATED: Mapping[EngineKind, tuple[Deprecated, ...]] = {
    EngineKind.VLLM: (
        Deprecated("--log-config-file", "0.33", "write --logging-config"),
        Deprecated("--mamba-cache-mode", "0.33"),
        Deprecated("--disable-cascade-attn", "0.33"),
        Deprecated("--ir-op-priority", "0.33"),
    ),
    EngineKind.SGLANG: (
        Deprecated("--disable-cuda-graph", "0.5.23", "write --cuda-graph-backend-decode=disabled, and -prefill"),
        Deprecated("--enable-dp-attention", "0.5.23", "write --attn-dp-size"),
        Deprecated("--grpc-mode", "0.5.23"),
        Deprecated("--enable-flashinfer-allreduce-fusion", "0.5.23"),
    ),
    EngineKind.LLAMA_CPP: (),
}


def gone_in(kind: EngineKind, flag: str, version: str, value: str | None = None) -> str | None:
    """Since when that version surely lacks a flag, or a value of it, in words; None where it is not known to."""
    gone = find_gone(kind, flag, value)
    if gone is not None and at_least(version, gone.gone):
        return f"gone between {gone.last} and {gone.gone}" if gone.last else f"gone by {gone.gone}"
    new = next((one for one in ADDED[kind] if value is None and one.flag == flag), None)
    return f"new in {new.first}" if new is not None and at_least(new.absent, version) else None


def find_gone(kind: EngineKind, flag: str, value: str | None = None) -> Gone | None:
    """What is known of a flag that went, or of one value of it."""
    return next((gone for gone in GONE[kind] if gone.flag == flag and gone.value == value), None)
