"""Turn a command line into its flags in one spelling each, so that only real differences between two of them show.

Aliases, `--flag=value`, underscores and unique prefixes are spellings of the same; a flag that says the engine's own
default says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.model.installed import Option

ON, OFF = "true", "false"
POSITIONAL = ""  # the name of words that follow no flag

_NUMBER = re.compile(r"-\d")
# Spellings of one flag, where the installed engine was not asked: of vLLM 0.33, SGLang 0.5.23, llama-server b10434.
_ALIASES: Mapping[EngineKind, Mapping[str, str]] = {
    EngineKind.VLLM: {
        "-tp": "--tensor-parallel-size",
        "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size",
        "-q": "--quantization",
        "-n": "--nnodes",
        "-r": "--node-rank",
        "--device-memory-utilization": "--gpu-memory-utilization",
    },
    EngineKind.SGLANG: {
        "--model": "--model-path",
        "--tensor-parallel-size": "--tp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--data-parallel-size": "--dp-size",
        "--ep": "--ep-size",
        "--nccl-init-addr": "--dist-init-addr",
    },
    EngineKind.LLAMA_CPP: {
        "-m": "--model",
        "-c": "--ctx-size",
        "-a": "--alias",
        "-sm": "--split-mode",
        "-dev": "--device",
    },
}
_FOLDS_UNDERSCORES = frozenset({EngineKind.VLLM})  # and takes `--flag.key value`; the others take a flag as it is


class Given(NamedTuple):
    """A flag of a command line, or words that follow none."""

    name: str  # in one spelling; as written where it is not known
    values: tuple[str, ...]
    written: str  # without its value
    candidates: tuple[str, ...] = ()  # what an abbreviation may mean, when that is not one flag

    @property
    def is_flag(self) -> bool:
        """Whether it is one."""
        return self.name != POSITIONAL


def read_flags(words: Sequence[str], kind: EngineKind, options: Sequence[Option] = ()) -> tuple[Given, ...]:
    """The flags among the words behind an engine's entry, in their order. `options`: those of the installed engine."""
    known = {name: option for option in options for name in option.names}
    found: list[Given] = []
    takes_more = True
    for word in words:
        if not _is_flag(word):
            if takes_more and found:
                found[-1] = found[-1]._replace(values=(*found[-1].values, word))
            else:
                found.append(Given(POSITIONAL, (word,), ""))
                takes_more = True
            continue
        given, option = _read(word, kind, known)
        found.append(given)
        takes_more = not given.values and (option is None or option.takes_value)
    return tuple(found)


def normalise(words: Sequence[str], kind: EngineKind, options: Sequence[Option] = ()) -> dict[str, tuple[str, ...]]:
    """Flag -> its values. A flag that stands twice counts the last time; one that says its default is left out."""
    defaults = {option.name: _default(option) for option in options}
    flags: dict[str, tuple[str, ...]] = {}
    for given in read_flags(words, kind, options):
        flags[given.name] = given.values or (() if given.name == POSITIONAL else (ON,))
    return {name: values for name, values in flags.items() if values != (defaults.get(name),)}


def _default(option: Option) -> str | None:
    """As a command line would say it: argparse prints truth as Python writes it."""
    return option.default.lower() if option.default in ("True", "False") else option.default


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)


def _read(word: str, kind: EngineKind, known: Mapping[str, Option]) -> tuple[Given, Option | None]:
    written, equals, value = word, "", ""
    if KINDS[kind].abbreviates:
        written, equals, value = word.partition("=")
    name = written.replace("_", "-") if kind in _FOLDS_UNDERSCORES and written.startswith("--") else written
    stem, dot, key = name.partition(".") if kind in _FOLDS_UNDERSCORES else (name, "", "")
    option, candidates = _find(stem, kind, known)
    values = (value,) if equals else ()
    if option is not None and stem not in option.names and not stem.startswith("--"):
        values = (stem[2:],)  # `-O3`
    if option is None:
        return Given(_ALIASES[kind].get(stem, stem) + dot + key, values, written, candidates), None
    if not values and not option.takes_value and stem.startswith(("--no-", "-no-")):
        values = (OFF,)  # `--no-mmap` is one spelling of an option that is called `--mmap`
    return Given(option.name + dot + key, values, written), option


def _find(name: str, kind: EngineKind, known: Mapping[str, Option]) -> tuple[Option | None, tuple[str, ...]]:
    """The option of that name, also cut short; else what it may mean."""
    if name in known or not KINDS[kind].abbreviates:
        return known.get(name), ()
    if len(name) > 2 and not name.startswith("--") and name[:2] in known:
        return known[name[:2]], ()
    starts = sorted(other for other in known if name.startswith("--") and other.startswith(name))
    meant = tuple(dict.fromkeys(known[other] for other in starts))
    return (meant[0], ()) if len(meant) == 1 else (None, tuple(starts))


def behind_entry(words: Sequence[str], executable: str) -> tuple[str, ...]:
    """The words behind an interpreter, the executable and its entry (`serve`, `-m MODULE`).

    >>> behind_entry(("/v/bin/python3", "/v/bin/vllm", "serve", "org/m", "--port", "1"), "/v/bin/vllm")
    ('org/m', '--port', '1')
    >>> behind_entry(("/v/bin/python3", "-m", "sglang.launch_server", "--port", "1"), "/v/bin/python3")
    ('--port', '1')
    """
    rest = list(words)
    name = executable.rpartition("/")[2]
    at = next((i for i, word in enumerate(rest[:4]) if word.rpartition("/")[2] == name), 0)
    rest = rest[at + 1 :]
    if rest[:1] == ["-m"] and rest[1:] and "." in rest[1] and not rest[1].startswith(("/", "-")):
        return tuple(rest[2:])
    return tuple(rest[1:] if rest[:1] == ["serve"] else rest)


def differences(
    one: Mapping[str, tuple[str, ...]], other: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, tuple[str, ...] | None, tuple[str, ...] | None]]:
    """Each flag whose values differ, sorted: its values in one and in the other, None where it is absent."""
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield name, one.get(name), other.get(name)
