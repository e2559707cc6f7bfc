"""The rules of an engine that is about to start: of its version, its flags, its model, and the memory for it."""

from __future__ import annotations

from llmgw_reconcile.validate.engine_version import flags_are_known, version_is_pinned
from llmgw_reconcile.validate.fit import (
    context_is_the_models,
    experts_divide,
    files_are_whole,
    heads_divide,
    layers_suffice,
    memory_suffices,
)
from llmgw_reconcile.validate.node_rules import Rule
from llmgw_reconcile.validate.quantization import (
    fp8_cache_fits_gpus,
    quantization_fits_checkpoint,
    quantization_fits_gpus,
)

START_RULES: tuple[Rule, ...] = (
    version_is_pinned,
    flags_are_known,
    files_are_whole,
    heads_divide,
    layers_suffice,
    experts_divide,
    context_is_the_models,
    quantization_fits_gpus,
    quantization_fits_checkpoint,
    fp8_cache_fits_gpus,
    memory_suffices,
)
