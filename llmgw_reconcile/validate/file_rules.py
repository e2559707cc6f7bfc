"""The rules of the state file itself, which need no node. One function per rule; all of them always run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.environment import RESERVED_PREFIX, RESERVED_VARIABLES
from llmgw_reconcile.engines.flags import clashing_flags, planned_variables
from llmgw_reconcile.engines.quantization import FP8_METHODS
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import DesiredState, Device, EngineKind, ModelSpec
from llmgw_reconcile.model.inventory import DEFAULT_EPHEMERAL_PORTS
from llmgw_reconcile.model.spec import engine_id
from llmgw_reconcile.placement.arithmetic import count_in_words, world_in_words
from llmgw_reconcile.placement.identify import canonical

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
    if model.gpus.ids or model.gpus.gpu_class or model.gpus.count:
        hint = "leave out `gpus`, or `device: cpu`"
        yield _error(model, "gpus", "cpu-with-gpus", "gpus: an engine on the CPU gets none", hint)
    if model.engine is EngineKind.VLLM and model.quantization in FP8_METHODS:
        message = f"quantization: vLLM has no {model.quantization} on the CPU"
        yield _error(model, "quantization", "cpu-without-fp8", message, "leave it out, or use `awq` or `gptq` weights")


def keys_stay_off_the_command_line(model: ModelSpec) -> Iterator[Diagnostic]:
    """The command line of a process is for everybody to read."""
    kind = KINDS[model.engine]
    takes_variable = any(flag.variables for flag in kind.flags if flag.field == "api_key")
    if model.api_key is not None and not takes_variable:
        message = f"api_key: {kind.title} takes its key on the command line only, where every user of the node reads it"
        yield _warning(model, "api_key", "key-on-command-line", message, "let a proxy in front of it ask for the key")


def ports_stay_below_the_ephemeral_range(state: DesiredState) -> Iterator[Diagnostic]:
    """The kernel gives ports of that range to whoever asks for any, other engines' workers among them."""
    low, high = DEFAULT_EPHEMERAL_PORTS
    where, hint = f"not below the ephemeral range, {low}-{high}", f"choose ports below {low}"
    for model in state.models:
        if (ports := _ports(model)) and ports[-1] >= low:
            span = f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]}-{ports[-1]} of {len(ports)} replicas"
            yield _error(model, "port", "ephemeral-port", f"{span}: {where}", hint)
    if state.node.ports[1] >= low:
        message = f"node.ports: {state.node.ports[0]}-{state.node.ports[1]}: {where}"
        yield Diagnostic(Severity.ERROR, "ephemeral-port", state.source, message, hint)


def ports_are_unique(state: DesiredState) -> Iterator[Diagnostic]:
    """Replica k listens on port + k, and no two engines on the same, whatever their addresses."""
    first: dict[int, tuple[str, ModelSpec]] = {}
    for model in state.models:
        told = {model.name}  # two models are told of once, however many ports they share
        for replica, port in enumerate(_ports(model)):
            engine = engine_id(model.name, replica)
            twin, other = first.setdefault(port, (engine, model))
            if other.name not in told:
                told.add(other.name)
                message = f"{engine} would listen on port {port}, as {twin} does ({other.position('port')})"
                yield _error(model, "port", "port-twice", message, "replica k of a model listens on port + k")


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
    ids_add_up,
    args_do_not_clash,
    env_does_not_clash,
    engine_can_express,
    cpu_engines_need_no_gpu,
    keys_stay_off_the_command_line,
)
STATE_RULES: tuple[StateRule, ...] = (ports_stay_below_the_ephemeral_range, ports_are_unique, gpus_are_named_once)


def _ports(model: ModelSpec) -> range:
    return range(0) if model.port is None else range(model.port, model.port + model.replicas)


def _where(model: ModelSpec, field: str) -> str:
    """Where a field, or an item below it, stands."""
    return model.positions.get(field) or model.position(re.split(r"[.\[]", field)[0])


def _error(model: ModelSpec, field: str, code: str, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, _where(model, field), f"{model.name}: {message}", hint)


def _warning(model: ModelSpec, field: str, code: str, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic(Severity.WARNING, code, _where(model, field), f"{model.name}: {message}", hint)
