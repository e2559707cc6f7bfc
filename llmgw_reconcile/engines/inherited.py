"""Which variables of a process's environment make its engine behave differently, and are worth writing down."""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmgw_reconcile.engines.environment import RESERVED_PREFIX

# What vLLM 0.33, SGLang 0.5.23 and llama.cpp read themselves, and what the libraries below them read.
_MATTERS = re.compile(
    r"(?:VLLM|SGLANG|SGL|LLAMA|GGML|HF|HUGGING_FACE|HUGGINGFACE|TRANSFORMERS|MODELSCOPE|TIKTOKEN|OPENAI_HARMONY"
    r"|CUDA|NVIDIA|NCCL|GLOO|UCX|NVSHMEM|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|OMP|MKL|KMP|GOMP|RAY)_.+"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHASHSEED|(?:HTTPS?|NO|ALL)_PROXY|(?:https?|no|all)_proxy"
)


def inherited_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of a process's environment that its engine, or a library below it, reads; sorted by name."""
    matters = (name for name in environ if _MATTERS.fullmatch(name) and not name.startswith(RESERVED_PREFIX))
    return {name: environ[name] for name in sorted(matters)}
