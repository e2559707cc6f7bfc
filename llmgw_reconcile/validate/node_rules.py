"""The rules of one engine on this node. One function per rule; all of them always run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import FileArg
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.placement.gpus import UNKNOWN_CLASS
from llmgw_reconcile.placement.identify import find_gpu
from llmgw_reconcile.validate.facts import EngineFacts
from llmgw_reconcile.validate.port_rules import words_of

Rule = Callable[[Placement, EngineFacts], Iterator[Diagnostic]]


def check_engine(placement: Placement, facts: EngineFacts, inventory: Inventory) -> tuple[Diagnostic, ...]:
    """What speaks against starting an engine where it was placed; an ERROR among it blocks that engine alone."""
    rules = RULES
    if facts.needs_start:
        from llmgw_reconcile.validate.start_rules import START_RULES  # a plan that starts nothing does without

        rules += START_RULES
    findings = [finding for rule in rules for finding in rule(placement, facts)]
    return (*findings, *port_outlives_the_kernel(placement, inventory))


def check_cordon(cordon: Sequence[str], inventory: Inventory) -> tuple[Diagnostic, ...]:
    """A warning for each name in `node.cordon` that names no GPU here: it would keep nothing from being given out."""
    if not inventory.gpus_known:
        return ()
    return tuple(
        Diagnostic(Severity.WARNING, "unknown-cordon", f"GPU {name}", "node.cordon names a GPU that this node has not")
        for name in cordon
        if find_gpu(name, inventory.gpus) is None
    )


def executable_is_there(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """The engine is installed."""
    if facts.executable is None or facts.executable_problem:
        problem = facts.executable_problem or f"{placement.executable}: not found"
        yield _error(placement, "executable-missing", problem, "install the engine, or name it with `executable:`")


def model_is_there(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """Engines take a path that does not exist for the name of something to download, and search for a minute."""
    if facts.model_problem:
        yield _error(placement, "model-missing", facts.model_problem, "`model:` is a hub id, or an absolute path here")


def files_are_there(placement: Placement, _: EngineFacts) -> Iterator[Diagnostic]:
    """The files that `args` names could be read when the state was loaded: the engine gets a copy of each."""
    for item in placement.spec.model.args:
        if isinstance(item, FileArg) and not item.digest:
            yield _error(placement, "file-missing", f"{item.path} cannot be read", "put it there, or name another")


def port_is_free(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """Nobody else listens on the engine's port."""
    if facts.listener is not None:
        message = f"port {placement.port} is taken by {words_of(facts.listener)}"
        yield _error(placement, "port-taken", message, "end that process, or choose another `port`")


def address_is_usable(placement: Placement, facts: EngineFacts) -> Iterator[Diagnostic]:
    """The engine can listen on `host`."""
    if facts.address_problem:
        yield _error(placement, "address-unusable", facts.address_problem, "`host:` is an address of this node")


def gpus_are_of_one_class(placement: Placement, _: EngineFacts) -> Iterator[Diagnostic]:
    """A group runs at the pace of its slowest card, and most engines refuse to mix them at all."""
    classes = sorted({gpu.gpu_class for gpu in placement.gpus} - {UNKNOWN_CLASS})
    if len(classes) > 1:
        message = f"its GPUs are of different classes: {', '.join(gpu.label for gpu in placement.gpus)}"
        yield _error(placement, "mixed-gpu-classes", message, "ask for one class: `gpus: {class: …}`")


def port_outlives_the_kernel(placement: Placement, inventory: Inventory) -> Iterator[Diagnostic]:
    """A port of the node's ephemeral range may be taken at any moment.

    A warning: on a node that has widened the range to all ports, an error would leave nothing to choose.
    """
    low, high = inventory.limits.ephemeral_ports or (0, -1)
    if placement.port is not None and low <= placement.port <= high:
        message = (
            f"port {placement.port} is among the ports that this node gives to whoever asks for any ({low}-{high})"
        )
        hint = f"keep it: sysctl net.ipv4.ip_local_reserved_ports={placement.port}"
        yield Diagnostic(Severity.WARNING, "ephemeral-port", placement.spec.engine, message, hint)


RULES: tuple[Rule, ...] = (
    executable_is_there,
    model_is_there,
    files_are_there,
    port_is_free,
    address_is_usable,
    gpus_are_of_one_class,
)


def _error(placement: Placement, code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, placement.spec.engine, message, hint)
