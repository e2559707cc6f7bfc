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
    FP8_CAPABILITY,
    NEEDS,
    STORED_METHODS,
    Capability,
    method_of,
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
        yield from _method_fits(placement, facts, method, asked)


def fp8_cache_fits_gpus(placement: Placement, _: EngineFacts) -> Iterator[Diagnostic]:
    """An fp8 KV cache falls under the same policy as fp8 weights."""
    model = placement.spec.model
    asked = (model.kv_cache_dtype, *values_in_args(model, "kv_cache_dtype"))
    fp8 = next((dtype for dtype in asked if dtype is not None and dtype.startswith("fp8")), None)
    if fp8 and (slow := _below(placement.gpus, FP8_CAPABILITY)) and ACCEPT_WEIGHT_ONLY not in model.accept:
        does = "keep its cache in fp8 and compute in 16 bit: memory saved, no fp8 arithmetic"
        yield _policy(placement, f"kv_cache_dtype {fp8}", slow, does)


def quantization_fits_checkpoint(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """A method of stored weights finds none in a checkpoint of 16 bit: the engine looks for its config, and ends.

    A warning: what is looked for differs from release to release.
    """
    model, checkpoint = placement.spec.model, facts.checkpoint
    if checkpoint is None or checkpoint.quantization is not None:
        return
    for method in (model.quantization, *values_in_args(model, "quantization")):
        if method in STORED_METHODS:
            message = (
                f"quantization {method} needs weights that were quantized so; {checkpoint.path} says nothing of it"
            )
            yield _warning(placement, "quantization-mismatch", message)


def _methods(placement: Placement, facts: EngineFacts) -> dict[str, str]:
    """Method -> it in words, with the first place that asks for it."""
    model = placement.spec.model
    methods = {} if model.quantization is None else {model.quantization: f"quantization {model.quantization}"}
    for method in values_in_args(model, "quantization"):
        methods.setdefault(method, f"quantization {method} in args")
    if facts.checkpoint is not None and facts.checkpoint.quantization is not None:
        own = method_of(facts.checkpoint.quantization, model.engine)
        methods.setdefault(own, f"quantization {own} of the checkpoint")
    return methods


def _method_fits(placement: Placement, facts: EngineFacts, method: str, asked: str) -> Iterator[Diagnostic]:
    model = placement.spec.model
    needs = NEEDS[model.engine]
    engine = f"{KINDS[model.engine].title} {facts.installed.version or needs.read}".rstrip()
    need = needs.of(method, facts.installed.version)
    if need is None:
        message = f"{asked}: not among the methods known of {engine}, so its needs were not checked"
        yield _warning(placement, "unknown-quantization", message)
        return
    if unknown := [gpu.label for gpu in placement.gpus if gpu.capability is None]:
        message = f"{asked}: the compute capability of {', '.join(unknown)} is not known, so it was not checked"
        yield _warning(placement, "unknown-capability", message)
    if slow := _below(placement.gpus, need.minimum):
        message = f"{asked} needs compute capability {_words(need.minimum)} in {engine}, but {slow}"
        yield Diagnostic(
            Severity.ERROR, "quantization-unsupported", placement.spec.engine, message, "choose other GPUs"
        )
    elif need.native == FP8_CAPABILITY and (slow := _below(placement.gpus, FP8_CAPABILITY)):
        yield from _weight_only_fp8(placement, facts, asked, slow)
    elif need.native == FP4_CAPABILITY and (slow := _below(placement.gpus, FP4_CAPABILITY)):
        message = f"{asked} computes in fp4 from {_words(FP4_CAPABILITY)} on, but {slow}: weight-only W4A16"
        yield _warning(placement, "fp4-weight-only", message)


def _weight_only_fp8(placement: Placement, facts: EngineFacts, asked: str, slow: str) -> Iterator[Diagnostic]:
    if ACCEPT_WEIGHT_ONLY not in placement.spec.model.accept:
        does = "run weight-only W8A16 (Marlin): memory saved, no fp8 arithmetic"
        yield _policy(placement, asked, slow, does)
    elif facts.checkpoint is not None and (facts.checkpoint.experts or 0) > 1:
        message = f"{asked}: fp8 experts below {_words(FP8_CAPABILITY)} work in some releases and fail in others"
        yield _warning(placement, "fp8-experts", message)


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
