"""An engine that somebody started by hand to the entry under which llmgw would run the same."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from llmgw_reconcile.discovery.foreign_engines import ForeignEngine
from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.inherited import inherited_variables
from llmgw_reconcile.engines.program import program_of
from llmgw_reconcile.engines.reading import Place, read_command
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.statefile.entry import free_name
from llmgw_reconcile.workflow.recorded_entries import FoundEntry

VISIBLE = "CUDA_VISIBLE_DEVICES"

# What an engine does where its command line says nothing, and llmgw would do otherwise (facts of vLLM 0.33, SGLang
# 0.5.23, llama-server b10434).
_UNSAID: Mapping[EngineKind, Mapping[str, Any]] = {
    EngineKind.VLLM: {"host": "0.0.0.0", "port": 8000},  # noqa: S104 - what it does, not what we do
    EngineKind.SGLANG: {"port": 30000},
    EngineKind.LLAMA_CPP: {"port": 8080},
}


def place_at(folder: str) -> Place:
    """What relative paths of a command mean that is given in this folder."""
    return Place(lambda path: os.path.normpath(os.path.join(folder, path)), os.path.exists)


def foreign_entry(engine: ForeignEngine, gpus: Sequence[Gpu]) -> FoundEntry:
    """The entry, without a name. Raises LlmgwError when its command line cannot be read back."""
    program = program_of(engine.argv)
    assert program is not None, "found by that very rule"
    program = program._replace(executable=_executable(program.executable, engine))
    variables, place = inherited_variables(engine.environ), place_at(engine.folder)
    held = [gpu for gpu in gpus if gpu.uuid and any(holder.pid in engine.family for holder in gpu.holders)]
    reading = read_command(program, variables, place)
    fields = {**_UNSAID[program.kind], **reading.fields}
    if "gpus" in fields:
        fields["gpus"] = {"ids": _by_uuid(fields["gpus"]["ids"], held)}
    elif held:
        seen = {**variables, VISIBLE: ",".join(str(gpu.uuid) for gpu in held)}
        reading = read_command(program, seen, place)
        fields |= reading.fields
    origin = f"{KINDS[program.kind].title}, pid {engine.pid}" + (f" of {engine.user}" if engine.user else "")
    return FoundEntry(fields, {**reading.remarks, "name": f"{origin}, {_whose(engine)}"}, origin)


def _whose(engine: ForeignEngine) -> str:
    """How it can become ours."""
    if other := engine.environ.get("LLMGW_ENGINE"):
        return f"is {other} of another llmgw, which must let go of it first"
    return "not started by llmgw: `llmgw apply --adopt` takes it over as it runs"


def with_name(fields: Mapping[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """The fields of an entry with a name that is not taken; clients who know the model by just that need no other."""
    name = free_name(fields, taken)
    return {"name": name} | {key: value for key, value in fields.items() if (key, value) != ("served_model_name", name)}


def _executable(name: str, engine: ForeignEngine) -> str:
    """Where it was found: a bare name on the PATH that the engine was started with."""
    if "/" in name:
        return name
    for folder in engine.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, name)
        if folder.startswith("/") and os.access(path, os.X_OK):
            return path
    return name


def _by_uuid(named: Sequence[str | int], held: Sequence[Gpu]) -> list[str | int]:
    """The UUIDs of the cards that it holds memory on, in the order of their names, if those are the very same cards.

    A UUID stays true; an index in CUDA_VISIBLE_DEVICES counts in an order of CUDA's own.
    """
    by_index = {gpu.index: gpu.uuid for gpu in held}
    uuids = [by_index.get(name) if isinstance(name, int) else name for name in named]
    return [uuid or "" for uuid in uuids] if set(uuids) == set(by_index.values()) else list(named)
