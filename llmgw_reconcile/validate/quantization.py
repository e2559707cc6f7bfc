"""The rules of low precision: what an engine, asked for a quantization, would do on the GPUs that it was given.

Facts are in `engines.quantization`. Below an engine's own minimum nothing helps. Above it, but below the capability
from which GPUs compute in fp8, the refusal is a policy of ours that the model can accept.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.flags import values_in_args
from llmgw_reconcile.engines.quantization import (
    FP4_CAPABILITY,
    FP4_METHODS,
    FP8_CAPABILITY,
    FP8_METHODS,
    MINIMUMS,
    Capability,
)
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.validate.facts import EngineFacts

ACCEPT_WEIGHT_ONLY = "fp8-weight-only"


def quantization_fits_gpus(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """Every method that the file, its `args` or the checkpoint asks for, against every GPU of the engine."""
    if not placement.gpus:
        return
    for method, asked in _methods(placement, facts).items():
        yield from _method_fits(placement, method, asked)


def fp8_cache_fits_gpus(placement: Placement, _: EngineFacts) -> Iterator[Diagnostic]:
    """An fp8 KV cache falls under the same policy as fp8 weights."""
    model = placement.spec.model
    asked = (model.kv_cache_dtype, *values_in_args(model, "kv_cache_dtype"))
    fp8 = next((dtype for dtype in asked if dtype is not None and dtype.startswith("fp8")), None)
    if fp8 and (slow := _below(placement.gpus, FP8_CAPABILITY)) and ACCEPT_WEIGHT_ONLY not in model.accept:
        does = "keep its cache in fp8 and compute in 16 bit: memory saved, no fp8 arithmetic"
        yield _policy(placement, f"kv_cache_dtype {fp8}", slow, does)


def _methods(placement: Placement, facts: EngineFacts) -> dict[str, str]:
    """Method -> it in words, with the first place that asks for it."""
    model = placement.spec.model
    methods = {} if model.quantization is None else {model.quantization: f"quantization {model.quantization}"}
    for method in values_in_args(model, "quantization"):
        methods.setdefault(method, f"quantization {method} in args")
    if (own := facts.model_quantization) is not None:
        with_format = f"{own}/{facts.model_quantization_format}"
        own = with_format if with_format in MINIMUMS[model.engine].by_method else own
        methods.setdefault(own, f"quantization {own} of the checkpoint")
    return methods


def _method_fits(placement: Placement, method: str, asked: str) -> Iterator[Diagnostic]:
    model = placement.spec.model
    minimums = MINIMUMS[model.engine]
    engine = f"{KINDS[model.engine].title} {minimums.version}".rstrip()
    lowest = minimums.by_method.get(method)
    if lowest is None:
        message = f"{asked}: not among the methods known of {engine}, so its needs were not checked"
        yield _warning(placement, "unknown-quantization", message)
        return
    if unknown := [gpu.label for gpu in placement.gpus if gpu.capability is None]:
        message = f"{asked}: the compute capability of {', '.join(unknown)} is not known, so it was not checked"
        yield _warning(placement, "unknown-capability", message)
    if slow := _below(placement.gpus, lowest):
        message = f"{asked} needs compute capability {_words(lowest)} in {engine}, but {slow}"
        yield Diagnostic(
            Severity.ERROR, "quantization-unsupported", placement.spec.engine, message, "choose other GPUs"
        )
    elif method in FP8_METHODS and (slow := _below(placement.gpus, FP8_CAPABILITY)):
        if ACCEPT_WEIGHT_ONLY not in model.accept:
            does = "run weight-only W8A16 (Marlin): memory saved, no fp8 arithmetic"
            yield _policy(placement, asked, slow, does)
    elif method in FP4_METHODS and (slow := _below(placement.gpus, FP4_CAPABILITY)):
        message = f"{asked} computes in fp4 from {_words(FP4_CAPABILITY)} on, but {slow}: weight-only W4A16"
        yield _warning(placement, "fp4-weight-only", message)


def _below(gpus: tuple[Gpu, ...], needed: Capability) -> str:
    """The GPUs that are not capable of it, with what they have; empty when all are, or none is known not to be."""
    slow = [gpu for gpu in gpus if gpu.capability is not None and gpu.capability < needed]
    return ", ".join(f"{gpu.label} has {gpu.compute_capability}" for gpu in slow)


def _policy(placement: Placement, asked: str, slow: str, does: str) -> Diagnostic:
    message = f"{asked} needs compute capability {_words(FP8_CAPABILITY)}, but {slow}; policy: the engine would {does}"
    hint = f"to run it so: `accept: [{ACCEPT_WEIGHT_ONLY}]`"
    return Diagnostic(Severity.ERROR, ACCEPT_WEIGHT_ONLY, placement.spec.engine, message, hint)


def _warning(placement: Placement, code: str, message: str) -> Diagnostic:
    return Diagnostic(Severity.WARNING, code, placement.spec.engine, message)


def _words(capability: Capability) -> str:
    return ".".join(map(str, capability))
