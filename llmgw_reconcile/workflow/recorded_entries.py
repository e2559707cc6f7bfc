"""The records of a model's engines back to the entry of the state file that they were made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.model.spec import Document, engines_of

_DURATIONS = ("start_timeout", "silence_timeout", "reset_after", "stop_grace")
_OF_ONE_REPLICA = ("port", "gpus")


class RecordedEngine(NamedTuple):
    """What the records say of one replica."""

    replica: int
    document: Document
    bookkeeping: Document


class FoundEntry(NamedTuple):
    """An entry in the making: JSON values and remarks by field; `origin` says in words what it was read from."""

    fields: dict[str, Any]
    remarks: Mapping[str, str]
    origin: str


def recorded_entry(name: str, engines: Sequence[RecordedEngine]) -> FoundEntry:
    """The entry of a model. Fields that the file left out stay out; where replicas differ, the first one is shown."""
    engines = sorted(engines, key=lambda engine: engine.replica)
    first = engines[0]
    fields: dict[str, Any] = {"name": name} | {key: _field(key, value) for key, value in first.document.items()}
    if fields.get("served_model_name") == name:
        del fields["served_model_name"]
    if ids := [gpu for engine in engines for gpu in engine.document.get("gpus", {}).get("ids", ())]:
        fields["gpus"] = fields["gpus"] | {"ids": [int(gpu) if gpu.isdecimal() else gpu for gpu in ids]}
    if engines[-1].replica:
        fields["replicas"] = engines[-1].replica + 1
    fields |= _unusual(first.bookkeeping)
    differ = any(not _is_replica_of(first, other) for other in engines[1:])
    remarks = {"name": f"its replicas differ; this is what {name}@{first.replica} runs as"} if differ else {}
    return FoundEntry(fields, remarks, f"the records of {name}")


def duration_of(seconds: float) -> str:
    """Seconds as the state file writes them.

    >>> duration_of(5400.0), duration_of(90.0), duration_of(0.0), duration_of(7200.0)
    ('1h30m', '90s', '0s', '2h')
    """
    whole = int(seconds)
    if not whole or (whole < 3600 and whole % 60):
        return f"{whole}s"
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount)


def _field(key: str, value: Any) -> Any:
    if key == "args":
        return [item if isinstance(item, str) else {"file": item["file"]} for item in value]
    return value[0] if key == "served_model_name" and len(value) == 1 else value


def _unusual(bookkeeping: Document) -> dict[str, Any]:
    """What differs from llmgw's defaults."""
    plain = engines_of(ModelSpec(name="any", model="any", engine=EngineKind.VLLM))[0].bookkeeping
    found: dict[str, Any] = {}
    for key, value in bookkeeping.items():
        usual = plain.get(key)
        if isinstance(value, dict) and isinstance(usual, dict):
            value = {name: _shown(name, inner) for name, inner in value.items() if inner != usual.get(name)}
            usual = {}
        if value != usual:
            found[key] = _shown(key, value)
    return found


def _shown(name: str, value: Any) -> Any:
    return duration_of(value) if name in _DURATIONS else value


def _is_replica_of(first: RecordedEngine, other: RecordedEngine) -> bool:
    """Whether both come from one entry: alike but for GPUs, and each on its own of consecutive ports."""
    alike = all(
        first.document.get(key) == other.document.get(key)
        for key in first.document.keys() | other.document.keys()
        if key not in _OF_ONE_REPLICA
    )
    steps = [engine.document["port"] - engine.replica for engine in (first, other) if "port" in engine.document]
    follows = not steps or (len(steps) == 2 and steps[0] == steps[1])
    return alike and follows and first.bookkeeping == other.bookkeeping
