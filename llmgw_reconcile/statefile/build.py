"""Turn a tree that fits the schema into the values of a desired state."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from llmgw_reconcile.model.desired import (
    Device,
    EngineKind,
    FabricChoice,
    FileArg,
    GpuRequest,
    GroupNode,
    Liveness,
    ModelSpec,
    NodeSettings,
    Readiness,
    Restart,
    SecretRef,
)
from llmgw_reconcile.statefile.sections import Section
from llmgw_reconcile.statefile.tree import Entries, Items, Node, Scalar, Value, resolve

# Where defaults and entry both have one of these mappings, their keys are joined. A reference to a secret is one value.
_JOINED = ("env", "gpus", "readiness", "restart", "liveness", "labels")
Take = Callable[[Node], Any]

_SECONDS = {"h": 3600, "m": 60, "s": 1}


class Origin(NamedTuple):
    """Where the file stands, and how the files that it names are known."""

    source: str  # the file as the user named it
    base: str  # the absolute directory that relative paths start from
    digest_of: Callable[[str], str]  # absolute path -> "sha256:…", empty when the file cannot be read


def build_model(section: Section, defaults: Section | None, origin: Origin) -> ModelSpec:
    """One model, the defaults merged in. The section must fit the schema and have all fields that a model needs."""
    fields = _merged(defaults.fields if defaults else {}, section.fields)
    values = {name: take(fields[name]) for name, take in _FIELDS.items() if name in fields}
    values |= {name: take(fields[name], origin) for name, take in _FIELDS_OF_AN_ORIGIN.items() if name in fields}
    values.setdefault("served_model_name", (values["name"],))
    values["config_files"] = tuple(_config_files(values.get("args", ()), origin))
    return ModelSpec(**values, where=_where(section.place, origin), positions=_positions(section.fields, origin))


def build_node(root: Entries) -> NodeSettings:
    """The `node:` block, llmgw's defaults where it is silent."""
    node = root.fields.get("node")
    if not isinstance(node, Entries):
        return NodeSettings()
    fields = node.fields
    return NodeSettings(**{name: take(fields[name]) for name, take in _NODE_FIELDS.items() if name in fields})


def seconds(text: str) -> float:
    """A duration of the state file in seconds.

    >>> seconds("1h30m")
    5400.0
    """
    return float(sum(int(count) * _SECONDS[unit] for count, unit in re.findall("([0-9]+)([hms])", text)))


def _merged(defaults: Mapping[str, Node], own: Mapping[str, Node]) -> dict[str, Node]:
    merged = {**defaults, **own}
    for name in _JOINED:
        below, above = defaults.get(name), own.get(name)
        if isinstance(below, Entries) and isinstance(above, Entries):
            own_keys = above.fields
            kept = (pair for pair in below.pairs if isinstance(pair[0], Scalar) and pair[0].text not in own_keys)
            merged[name] = above._replace(pairs=(*kept, *above.pairs))
    return merged


def _positions(fields: Mapping[str, Node], origin: Origin) -> dict[str, str]:
    """Where each field stands, and what is below it: `port`, `gpus.class`, `args[2]`."""
    found = {}
    for name, node in fields.items():
        found[name] = _where(node, origin)
        if isinstance(node, Entries):
            found.update((f"{name}.{key}", _where(value, origin)) for key, value in node.fields.items())
        elif isinstance(node, Items):
            found.update((f"{name}[{index}]", _where(item, origin)) for index, item in enumerate(node.nodes))
    return found


def _where(node: Node, origin: Origin) -> str:
    return f"{origin.source}:{node.line}:{node.column}"


def _value(node: Node) -> Value:
    assert isinstance(node, Scalar)
    return resolve(node)


def _text(node: Node) -> str:
    """A scalar as it is written."""
    assert isinstance(node, Scalar)
    return node.text


def _list(node: Node) -> tuple[Node, ...]:
    assert isinstance(node, Items)
    return node.nodes


def _keys(node: Node) -> dict[str, Node]:
    assert isinstance(node, Entries)
    return node.fields


def _texts(node: Node) -> tuple[str, ...]:
    """A list of scalars, or one of them alone."""
    return tuple(map(_text, _list(node))) if isinstance(node, Items) else (_text(node),)


def _seconds(node: Node) -> float:
    return seconds(_text(node))


def _nodes(node: Node) -> tuple[GroupNode, ...]:
    return tuple(_group_node(item) for item in _list(node))


def _group_node(node: Node) -> GroupNode:
    if isinstance(node, Entries):
        return GroupNode(_text(node.fields["name"]), _text(node.fields["address"]))
    return GroupNode(_text(node), _text(node))


def _fabric(node: Node) -> FabricChoice:
    if isinstance(node, Scalar):
        return FabricChoice(use_rdma=node.text != "none")
    takes: dict[str, Take] = {"hcas": _texts, "socket_interface": _text, "rails": _text}
    return FabricChoice(**{name: takes[name](value) for name, value in _keys(node).items()})


def _ids(node: Node) -> tuple[str, ...]:
    return tuple(str(_value(item)) for item in _list(node))


def _port_range(node: Node) -> tuple[int, int]:
    first, _, last = _text(node).partition("-")
    return int(first), int(last)


def _gpus(node: Node) -> GpuRequest:
    takes: dict[str, Take] = {"class": _text, "ids": _ids, "count": _value, "share": _value}
    values = {name: takes[name](value) for name, value in _keys(node).items()}
    return GpuRequest(values.pop("class", None), **values)


def _readiness(node: Node) -> Readiness:
    takes: dict[str, Take] = {"start_timeout": _seconds, "silence_timeout": _seconds, "generate": _value}
    return Readiness(**{name: takes[name](value) for name, value in _keys(node).items()})


def _restart(node: Node) -> Restart:
    takes: dict[str, Take] = {"policy": _text, "max_restarts": _value, "reset_after": _seconds}
    return Restart(**{name: takes[name](value) for name, value in _keys(node).items()})


def _liveness(node: Node) -> Liveness:
    return Liveness(**{name: int(_text(value)) for name, value in _keys(node).items()})


def _labels(node: Node) -> dict[str, str]:
    return {name: _text(value) for name, value in _keys(node).items()}


def _path(node: Node, origin: Origin) -> str:
    return os.path.normpath(os.path.join(origin.base, _text(node)))


def _secret(node: Node, origin: Origin) -> SecretRef:
    ((source, value),) = _keys(node).items()
    return SecretRef(source, _path(value, origin) if source == "file" else _text(value))


def _env(node: Node, origin: Origin) -> dict[str, str | SecretRef]:
    return {
        name: value.text if isinstance(value, Scalar) else _secret(value, origin) for name, value in _keys(node).items()
    }


def _args(node: Node, origin: Origin) -> tuple[str | FileArg, ...]:
    return tuple(item.text if isinstance(item, Scalar) else _file_arg(item, origin) for item in _list(node))


def _config_files(args: tuple[str | FileArg, ...], origin: Origin) -> Iterator[FileArg]:
    """Files of settings, named by `--config`: the command line does not show what they say."""
    for position, item in enumerate(args):
        flag, equals, value = item.partition("=") if isinstance(item, str) else ("", "", "")
        if flag != "--config":
            continue
        path = value if equals else next(iter(args[position + 1 : position + 2]), "")
        if isinstance(path, str) and path.startswith("/"):
            yield FileArg(path, origin.digest_of(path))


def _file_arg(node: Node, origin: Origin) -> FileArg:
    path = _path(_keys(node)["file"], origin)
    return FileArg(path, origin.digest_of(path))


_FIELDS: Mapping[str, Take] = {
    "name": _text,
    "model": _text,
    "revision": _text,
    "engine": lambda node: EngineKind(_text(node)),
    "executable": _text,
    "engine_version": _text,
    "prefix": _texts,
    "user": _text,
    "device": lambda node: Device(_text(node)),
    "served_model_name": _texts,
    "replicas": _value,
    "tensor_parallel_size": _value,
    "pipeline_parallel_size": _value,
    "data_parallel_size": _value,
    "nodes": _nodes,
    "quantization": _text,
    "dtype": _text,
    "kv_cache_dtype": _text,
    "max_model_len": _value,
    "gpu_memory_utilization": _value,
    "gpus": _gpus,
    "host": _text,
    "port": _value,
    "readiness": _readiness,
    "restart": _restart,
    "liveness": _liveness,
    "stop_grace": _seconds,
    "update": _text,
    "adopt": _value,
    "protect": _value,
    "accept": _texts,
    "labels": _labels,
}
_FIELDS_OF_AN_ORIGIN: Mapping[str, Callable[[Node, Origin], Any]] = {"api_key": _secret, "env": _env, "args": _args}
_NODE_FIELDS: Mapping[str, Take] = {
    "name": _text,
    "ports": _port_range,
    "cordon": _ids,
    "held_above_mb": _value,
    "fabric": _fabric,
}
