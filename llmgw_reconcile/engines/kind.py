"""What has to be known of an engine kind to run it, as one value: its command, its flags, its answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from llmgw_reconcile.model.desired import FileArg, ModelSpec, SecretRef
from llmgw_reconcile.model.launch import Placement, ReadyWhen

Argument = str | SecretRef | FileArg
Variables = Mapping[str, str | SecretRef]

# Fields that an engine takes as they stand in the file, each behind its own flag.
_PASSED_ON = frozenset(
    {
        "revision",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "quantization",
        "dtype",
        "kv_cache_dtype",
        "max_model_len",
        "gpu_memory_utilization",
    }
)
_PYTHON = re.compile(r"python[0-9.]*")


class EngineFlag(NamedTuple):
    """How an engine spells a field of the state file."""

    field: str
    flag: str  # as llmgw writes it
    also: tuple[str, ...] = ()  # other flags that say, or undo, the same
    always: bool = False  # llmgw plans it even where the file leaves the field out
    variables: tuple[str, ...] = ()  # environment variables that say the same

    def is_planned(self, model: ModelSpec) -> bool:
        """Whether llmgw says this on the command line or in the environment of that model."""
        if self.field == "nodes":  # one node alone is a place to run, and nothing to tell the engine
            return model.is_group
        return self.always or getattr(model, self.field) != ModelSpec._field_defaults.get(self.field)


class Inexpressible(NamedTuple):
    """A field that the file gives and this engine has no words for, and what to write instead."""

    field: str
    problem: str
    instead: str


class Kind(NamedTuple):
    """An engine kind. Times are in seconds."""

    title: str  # as its makers write it
    executable: str  # its usual command
    flags: tuple[EngineFlag, ...]
    command: Callable[[Placement], tuple[Argument, ...]]  # without `prefix` and `args`
    environment: Callable[[ModelSpec], Variables]  # what it needs beyond the clean environment
    inexpressible: Callable[[ModelSpec], Iterable[Inexpressible]]
    abbreviates: bool  # its flags may be cut short while they stay unique, as argparse allows
    not_abbreviations: frozenset[str]  # flags of its own that only look like one of ours cut short
    probe_timeout: float
    loading_grace: float  # from SIGTERM to SIGKILL while it loads: no request is lost then
    health_path: str = "/health"
    followers_are_ready: ReadyWhen = ReadyWhen.SERVES  # ranks above 0 of a group
    address_variable: str = ""  # tells an engine the address of its own node


def is_python(executable: str) -> bool:
    """Whether an executable is an interpreter, which runs the engine as a module.

    >>> is_python("/opt/venv/bin/python3.12"), is_python("/opt/venv/bin/vllm")
    (True, False)
    """
    return _PYTHON.fullmatch(executable.rpartition("/")[2]) is not None


def passed_on(model: ModelSpec, flags: Iterable[EngineFlag]) -> tuple[str, ...]:
    """Flag and value of each field that the file gives and the engine takes as it is, in the order of `flags`."""
    given = ((flag.flag, getattr(model, flag.field)) for flag in flags if flag.field in _PASSED_ON)
    return tuple(text for flag, value in given if value is not None for text in (flag, str(value)))
