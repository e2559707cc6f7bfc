"""Values on an engine's command line to values of the state file's fields; None for what a field cannot say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from llmgw_reconcile.model.desired import EngineKind

_LENGTH = re.compile(r"([0-9]+(?:\.[0-9]+)?)(|k|m|Ki|K|Mi|M)")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "Ki": 2**10, "Mi": 2**20}
_FRACTION = re.compile(r"0?\.[0-9]+|1(?:\.0*)?")


def field_value(field: str, values: tuple[str, ...], kind: EngineKind) -> Any:
    """The JSON value of a field for all words behind its flag; None when the field cannot say that."""
    read = _READERS.get(field)
    return None if read is None else read(values, kind)


def _text(values: tuple[str, ...], _: EngineKind) -> str | None:
    return values[0] or None


def _count(values: tuple[str, ...], _: EngineKind) -> int | None:
    return int(values[0]) if re.fullmatch("[1-9][0-9]{0,8}", values[0]) else None


def _fraction(values: tuple[str, ...], _: EngineKind) -> float | None:
    found = float(values[0]) if _FRACTION.fullmatch(values[0]) else 0.0
    return found or None


def _names(values: tuple[str, ...], kind: EngineKind) -> list[str] | str | None:
    names = values[0].split(",") if kind is EngineKind.LLAMA_CPP else list(values)
    return names if len(names) > 1 else names[0] or None


def _length(values: tuple[str, ...], kind: EngineKind) -> int | None:
    """vLLM's K is 1024 where its k is 1000, SGLang writes Ki for the former (their own --help)."""
    found = _LENGTH.fullmatch(values[0])
    if found is None:
        return None
    number, unit = found.groups()
    if unit in ("K", "M"):
        unit = f"{unit}i" if kind is EngineKind.VLLM else unit.lower()
    return int(float(number) * _UNITS[unit]) or None


_READERS: Mapping[str, Callable[[tuple[str, ...], EngineKind], Any]] = {
    "host": _text,
    "port": _count,
    "served_model_name": _names,
    "revision": _text,
    "tensor_parallel_size": _count,
    "pipeline_parallel_size": _count,
    "data_parallel_size": _count,
    "quantization": _text,
    "dtype": _text,
    "kv_cache_dtype": _text,
    "max_model_len": _length,
    "gpu_memory_utilization": _fraction,
}
