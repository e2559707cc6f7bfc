"""The rules of a model on this node's disk: whether its files are whole, whether it can be split, and whether it fits.

What the checkpoint itself says is a fact, and cannot be accepted. The memory is an estimate, and can.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmgw_reconcile.engines.arguments import argument_value
from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.fit import Fit, asked_context, estimate
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.checkpoint import Checkpoint, DamageKind
from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.validate.facts import EngineFacts

ACCEPT_FIT = "does-not-fit"
MOST_RANKS = 64  # of the sizes that are suggested

_OTHER_TOKENIZER = ("--tokenizer", "--tokenizer-path", "--skip-tokenizer-init")
_CONFIG_OVERRIDES = ("--hf-overrides", "--json-model-override-args")
# What makes an engine take a longer context than its model's.
_LONGER = {
    EngineKind.VLLM: "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    EngineKind.SGLANG: "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
}
_TRUE = ("1", "true", "True")


def files_are_whole(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """An engine finds out after minutes, and reports it 200 lines above the end of its log."""
    model = placement.spec.model
    for kind, words in facts.checkpoint.damage if facts.checkpoint else ():
        if kind is DamageKind.TOKENIZER_MISSING:
            if argument_value(model, *_OTHER_TOKENIZER) is None:
                yield _error(placement, kind, words, "fetch the model again, or name one: `args: [--tokenizer, PATH]`")
        elif argument_value(model, "--load-format") != "dummy":
            yield _error(placement, kind, words, "fetch the model again")


def heads_divide(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """Tensor parallelism gives each rank the same number of heads; key-value heads may be repeated instead."""
    model, checkpoint, size = placement.spec.model, facts.checkpoint, placement.spec.model.tensor_parallel_size or 1
    if checkpoint is None or checkpoint.heads is None or not _splits(model) or _can_split(checkpoint, size):
        return
    allowed = [str(ranks) for ranks in range(1, MOST_RANKS + 1) if _can_split(checkpoint, ranks)]
    kv = f" and {checkpoint.kv_heads} key-value heads" if checkpoint.kv_heads not in (None, checkpoint.heads) else ""
    message = f"tensor_parallel_size {size} does not divide the {checkpoint.heads} attention heads{kv} of the model"
    message += f"; allowed: {', '.join(allowed)}"
    yield _error(placement, "heads-not-divisible", message, "choose one of these sizes")


def layers_suffice(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """Each rank of a pipeline has a layer."""
    layers, size = facts.checkpoint.layers if facts.checkpoint else None, placement.spec.model.pipeline_parallel_size
    if layers is not None and size is not None and size > layers and _splits(placement.spec.model):
        message = f"pipeline_parallel_size {size} is more than the {layers} layers of the model"
        yield _error(placement, "too-few-layers", message, f"at most {layers}")


def experts_divide(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """SGLang, and vLLM where it balances experts, give each rank the same number of them."""
    model, experts = placement.spec.model, facts.checkpoint.experts if facts.checkpoint else None
    ranks = _expert_ranks(model)
    if experts is not None and experts > 1 and ranks > 1 and experts % ranks:
        allowed = ", ".join(str(n) for n in range(1, MOST_RANKS + 1) if experts % n == 0)
        message = f"{experts} experts cannot be shared evenly by {ranks} ranks; allowed: {allowed}"
        yield _error(placement, "experts-not-divisible", message, "choose one of these sizes")


def context_is_the_models(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """A context longer than the model's ends an engine at its start, unless a variable allows it."""
    model, longest = placement.spec.model, facts.checkpoint.context if facts.checkpoint else None
    asked = asked_context(model)
    if longest is None or asked is None or asked <= longest or _overrides_config(model):
        return
    message = f"max_model_len {asked} is longer than the model's context of {longest}"
    variable = _LONGER.get(model.engine)
    if variable is None:
        yield Diagnostic(Severity.WARNING, "context-too-long", placement.spec.engine, message, f"at most {longest}")
    elif model.env.get(variable) not in _TRUE:
        hint = f"at most {longest}; {KINDS[model.engine].title} takes more with `env: {{{variable}: 1}}`"
        yield _error(placement, "context-too-long", message, hint)


def memory_suffices(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """Its weights have room on the GPUs, and beside them the cache of one request of full length."""
    engine, model = placement.spec.engine, placement.spec.model
    if not placement.gpus or not facts.needs_start or facts.model_problem:
        return
    if facts.checkpoint is None:
        yield _not_known(placement)
        return
    fit = estimate(placement, facts.checkpoint, facts.installed.version)
    if not isinstance(fit, Fit):
        if facts.checkpoint.damage:
            return  # and that is said already
        message = f"whether it fits was not estimated: {fit.reason}"
        yield Diagnostic(Severity.NOTE, "fit-unknown", engine, message)
    elif not fit.holds_weights and model.engine is not EngineKind.LLAMA_CPP:
        if ACCEPT_FIT not in model.accept:
            hint = (
                f"use more or larger GPUs, or weights of fewer bits; to try it all the same: `accept: [{ACCEPT_FIT}]`"
            )
            yield _error(placement, ACCEPT_FIT, f"its weights do not fit: {fit.words} a GPU", hint)
    elif fit.is_tight:
        yield Diagnostic(Severity.WARNING, "tight-fit", engine, *_tight(fit, model))


def _tight(fit: Fit, model: ModelSpec) -> tuple[str, str]:
    if model.engine is EngineKind.LLAMA_CPP:
        message = (
            f"little or no room is left on its GPUs: {fit.words}; what does not fit is computed on the CPU, slowly"
        )
        return message, "use more or larger GPUs, or a file of fewer bits"
    return f"little or no room is left on a GPU: {fit.words}", "lower max_model_len, or use more GPUs"


def _not_known(placement: Placement) -> Diagnostic:
    """A size that may not divide the model is worth a warning; that the fit is not known, only a note."""
    model = placement.spec.model
    message = f"{model.model} is not on this node's disk: whether it fits was not estimated"
    if (model.tensor_parallel_size or 1) * (model.pipeline_parallel_size or 1) == 1:
        return Diagnostic(Severity.NOTE, "fit-unknown", placement.spec.engine, message)
    message += ", nor whether it can be split so"
    return Diagnostic(Severity.WARNING, "fit-unknown", placement.spec.engine, message)


def _splits(model: ModelSpec) -> bool:
    """llama-server cuts tensors and layers where it likes."""
    return model.engine is not EngineKind.LLAMA_CPP


def _can_split(checkpoint: Checkpoint, ranks: int) -> bool:
    heads, kv_heads = checkpoint.heads or ranks, checkpoint.kv_heads
    return heads % ranks == 0 and (kv_heads is None or kv_heads % ranks == 0 or ranks % kv_heads == 0)


def _expert_ranks(model: ModelSpec) -> int:
    """Ranks that must get the same number of experts; 1 where none must."""
    if model.engine is EngineKind.SGLANG:
        given = argument_value(model, "--ep-size", "--ep", "--expert-parallel-size") or ""
        return int(given) if given.isdecimal() else 1
    balances = argument_value(model, "--enable-eplb") is not None and argument_value(model, "--eplb-config") is None
    if model.engine is EngineKind.VLLM and balances and argument_value(model, "--enable-expert-parallel") is not None:
        return (model.tensor_parallel_size or 1) * (model.data_parallel_size or 1)
    return 1


def _overrides_config(model: ModelSpec) -> bool:
    """Whether `args` change what config.json says."""
    return any(isinstance(item, str) and item.startswith(_CONFIG_OVERRIDES) for item in model.args)


def _error(placement: Placement, code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, str(code), placement.spec.engine, message, hint)
