"""The rules of the state file itself, which need no node. One function per rule; all of them always run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.environment import RESERVED_PREFIX, RESERVED_VARIABLES
from llmgw_reconcile.engines.flags import clashing_flags, planned_variables
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import DesiredState, Device, EngineKind, ModelSpec
from llmgw_reconcile.placement.arithmetic import count_in_words, world_in_words
from llmgw_reconcile.placement.identify import canonical
from llmgw_reconcile.validate.port_rules import ports_are_unique, ports_stay_below_the_ephemeral_range

ModelRule = Callable[[ModelSpec], Iterator[Diagnostic]]
StateRule = Callable[[DesiredState], Iterator[Diagnostic]]


def check_file(state: DesiredState) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with the file, model by model; an ERROR among it refuses the whole file."""
    of_models = [finding for model in state.models for rule in MODEL_RULES for finding in rule(model)]
    of_all = [finding for rule in STATE_RULES for finding in rule(state)]
    return (*of_models, *of_all)


def sizes_add_up(model: ModelSpec) -> Iterator[Diagnostic]:
    """A group of nodes shares its GPUs evenly."""
    nodes = len(model.nodes)
    sizes = (model.tensor_parallel_size, model.pipeline_parallel_size, model.data_parallel_size)
    world = math.prod(size or 1 for size in sizes)
    if nodes and world % nodes:
        words = f"{world_in_words(model) or 'no size given'} = {count_in_words(world)}"
        yield _error(model, "nodes", "sizes-do-not-add-up", f"{words}, which {nodes} nodes cannot share evenly")


def nodes_are_distinct(model: ModelSpec) -> Iterator[Diagnostic]:
    """Each node of a group is one machine, and has one rank."""
    names: dict[str, int] = {}
    addresses: dict[str, int] = {}
    for rank, node in enumerate(model.nodes):
        twin = names.setdefault(node.name.lower(), rank)
        if twin == rank:
            twin = addresses.setdefault(node.address.lower(), rank)
        if twin != rank:
            message = f"nodes: {node.name} is rank {rank}, and rank {twin} is the same node"
            yield _error(model, f"nodes[{rank}]", "node-twice", message, "name each node once")


def ids_add_up(model: ModelSpec) -> Iterator[Diagnostic]:
    """`gpus.ids` names exactly the GPUs that all replicas need on this node."""
    ids, need = len(model.gpus.ids), model.replicas * model.gpus_per_replica
    if not ids or not model.replicas or model.device is Device.CPU or ids == need:
        return
    factors = [f"{model.replicas} replicas"] if model.replicas > 1 else []
    factors += [words] if (words := world_in_words(model)) else []
    arithmetic = " x ".join(factors) + (f" / {len(model.nodes)} nodes" if model.nodes else "")
    needed = f"{arithmetic} = {count_in_words(need)}" if arithmetic else count_in_words(need)
    yield _error(model, "gpus.ids", "sizes-do-not-add-up", f"gpus.ids names {count_in_words(ids)}, needed: {needed}")


def count_agrees(model: ModelSpec) -> Iterator[Diagnostic]:
    """`gpus.count` says what the sizes say; llama.cpp without sizes takes it as the number of GPUs."""
    count, need = model.gpus.count, model.gpus_per_replica
    if count is None or model.device is Device.CPU or count == need:
        return
    words = f"{world_in_words(model) or 'no size given'}" + (f" / {len(model.nodes)} nodes" if model.nodes else "")
    message = f"gpus.count is {count}, and {words} = {count_in_words(need)}"
    yield _error(model, "gpus.count", "sizes-do-not-add-up", message, "write `tensor_parallel_size`, and leave it out")


def args_do_not_clash(model: ModelSpec) -> Iterator[Diagnostic]:
    """A flag that llmgw plans stands once on the command line."""
    for flag in clashing_flags(model):
        message = f"args: {flag.flag} says what `{flag.field}` says"
        yield _error(
            model, f"args[{flag.position}]", "clashing-flag", message, f"write `{flag.field}:` instead of the flag"
        )


def env_does_not_clash(model: ModelSpec) -> Iterator[Diagnostic]:
    """A variable that llmgw plans, and on which GPUs, records or probes rest, is not set again."""
    planned = planned_variables(model)
    for name in model.env:
        if name in planned:
            hint = f"write `{planned[name]}:` instead"
            yield _error(model, f"env.{name}", "clashing-variable", f"{name} says what `{planned[name]}` says", hint)
        elif name in RESERVED_VARIABLES:
            hint = "choose GPUs with `gpus: {ids: […]}`"
            yield _error(
                model, f"env.{name}", "clashing-variable", f"{name} is set from the GPUs that llmgw gives", hint
            )
        elif name.startswith(RESERVED_PREFIX):
            message = f"{name}: names with {RESERVED_PREFIX} are llmgw's own"
            yield _error(model, f"env.{name}", "clashing-variable", message, "leave it out")


def engine_can_express(model: ModelSpec) -> Iterator[Diagnostic]:
    """A field that the engine has no words for is refused, never dropped."""
    kind = KINDS[model.engine]
    for lack in kind.inexpressible(model):
        yield _error(model, lack.field, "inexpressible", f"{lack.field}: {kind.title}: {lack.problem}", lack.instead)


def cpu_engines_need_no_gpu(model: ModelSpec) -> Iterator[Diagnostic]:
    """An engine on the CPU names no GPU, and nothing that its CPU build lacks."""
    if model.device is not Device.CPU:
        return
    from llmgw_reconcile.engines.quantization import FP8_METHODS  # the table is not needed for most files

    if model.gpus.ids or model.gpus.gpu_class or model.gpus.count:
        hint = "leave out `gpus`, or `device: cpu`"
        yield _error(model, "gpus", "cpu-with-gpus", "gpus: an engine on the CPU gets none", hint)
    if model.engine is EngineKind.VLLM and model.quantization in FP8_METHODS:
        message = f"quantization: vLLM has no {model.quantization} on the CPU"
        yield _error(model, "quantization", "cpu-without-fp8", message, "leave it out, or use `awq` or `gptq` weights")


def pin_can_be_read(model: ModelSpec) -> Iterator[Diagnostic]:
    """A pin that nothing matches would block its engine for ever."""
    if model.engine_version is None:
        return
    from llmgw_reconcile.engines.version import is_pin

    if not is_pin(model.engine_version):
        message = f"engine_version: {model.engine_version} is no version"
        yield _error(model, "engine_version", "unreadable-pin", message, 'write "0.33.*", or ">=0.32,<0.34"')


def keys_stay_off_the_command_line(model: ModelSpec) -> Iterator[Diagnostic]:
    """The command line of a process is for everybody to read."""
    kind = KINDS[model.engine]
    takes_variable = any(flag.variables for flag in kind.flags if flag.field == "api_key")
    if model.api_key is not None and not takes_variable:
        message = f"api_key: {kind.title} takes its key on the command line only, where every user of the node reads it"
        yield _warning(model, "api_key", "key-on-command-line", message, "let a proxy in front of it ask for the key")


def gpus_are_named_once(state: DesiredState) -> Iterator[Diagnostic]:
    """No GPU is named by two models, or twice by one, unless they share it."""
    first: dict[str, ModelSpec] = {}
    for model in state.models:
        for name in model.gpus.ids if model.replicas else ():
            other = first.get(canonical(name))
            if other is None:
                first[canonical(name)] = model
            elif not (model.gpus.share and other.gpus.share and other is not model):
                message = f"gpus.ids: GPU {name} is named by {other.name} already ({_where(other, 'gpus.ids')})"
                yield _error(model, "gpus.ids", "gpu-twice", message, "give each engine GPUs of its own")


MODEL_RULES: tuple[ModelRule, ...] = (
    sizes_add_up,
    nodes_are_distinct,
    ids_add_up,
    count_agrees,
    args_do_not_clash,
    env_does_not_clash,
    engine_can_express,
    cpu_engines_need_no_gpu,
    pin_can_be_read,
    keys_stay_off_the_command_line,
)
STATE_RULES: tuple[StateRule, ...] = (ports_stay_below_the_ephemeral_range, ports_are_unique, gpus_are_named_once)


def _where(model: ModelSpec, field: str) -> str:
    """Where a field, or an item below it, stands."""
    return model.positions.get(field) or model.position(re.split(r"[.\[]", field)[0])


def _error(model: ModelSpec, field: str, code: str, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, _where(model, field), f"{model.name}: {message}", hint)


def _warning(model: ModelSpec, field: str, code: str, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic(Severity.WARNING, code, _where(model, field), f"{model.name}: {message}", hint)
