"""A command line to the engine that it starts: which kind, by which executable, behind what, with which arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from llmgw_reconcile.engines.kind import is_python
from llmgw_reconcile.engines.shell_words import Word
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.model.desired import EngineKind

# Commands that serve with that word behind them, and modules of Python without and with it (vLLM 0.33, SGLang 0.5.23).
_SERVE = "serve"
_COMMANDS = {"vllm": EngineKind.VLLM, "sglang": EngineKind.SGLANG}
_MODULES = {"vllm.entrypoints.openai.api_server": EngineKind.VLLM, "sglang.launch_server": EngineKind.SGLANG}
_SERVING_MODULES = {"vllm.entrypoints.cli.main": EngineKind.VLLM, "sglang.cli.main": EngineKind.SGLANG}
_LLAMA_SERVER = re.compile(r"llama-server[A-Za-z0-9_.-]*")  # a build may put its name behind
_PYTHON_FLAG = re.compile(r"-[bBdEiIOPqsSuvx]+")  # options of CPython without a value

# What may stand before an engine: the first exec it, the second do nothing that llmgw does not do itself.
_EXECS = frozenset({"numactl", "taskset", "nice", "ionice", "chrt", "stdbuf", "setarch"})
_NEEDLESS = frozenset({"exec", "nohup", "time", "command", "setsid"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "kubectl", "apptainer", "singularity", "enroot"})
_INSTEAD = {
    "sudo": "leave sudo out, and write the account as `user:` into the entry",
    "uv": "name the program of that environment by its path, such as .venv/bin/vllm",
    "uvx": "install the engine into an environment of its own, and name its program by its path",
    "conda": "name the program of that environment by its path, such as ~/miniconda3/envs/NAME/bin/vllm",
}


class Program(NamedTuple):
    """The engine in a command line."""

    kind: EngineKind
    executable: str  # as written: a command, a script, or the interpreter that runs it as a module
    arguments: tuple[Word, ...]
    prefix: tuple[str, ...] = ()


def program_of(argv: Sequence[Word]) -> Program | None:
    """The engine that a process with this command line is; None for any other process, a wrapper of one included.

    A console script shows as its interpreter, the script, and the arguments (execve(2), interpreter scripts).

    >>> program_of(("/v/bin/python3", "/v/bin/vllm", "serve", "org/model")).executable
    '/v/bin/vllm'
    """
    if not argv or not isinstance(argv[0], str):
        return None
    return _of_python(argv[0], argv[1:]) if is_python(argv[0]) else _of_command(argv[0], argv[1:])


def program_in(words: Sequence[Word]) -> Program:
    """The engine in a command that a person would type. Raises RefusedError when there is none that llmgw can start."""
    for start in range(len(words)):
        if (found := program_of(words[start:])) is not None:
            return found._replace(prefix=_prefix(words[:start]))
    name = _base(words[0]) if words else "an empty command"
    if name in _CONTAINERS:
        raise _container(name)
    raise RefusedError(
        f"cannot tell which engine {name} starts; known are `vllm serve`, `sglang serve`, `llama-server`, "
        "and the first two as modules of Python"
    )


def _of_command(program: str, arguments: Sequence[Word]) -> Program | None:
    name = _base(program)
    if _LLAMA_SERVER.fullmatch(name):
        return Program(EngineKind.LLAMA_CPP, program, tuple(arguments))
    if name in _COMMANDS and arguments and arguments[0] == _SERVE:
        return Program(_COMMANDS[name], program, tuple(arguments[1:]))
    return None


def _of_python(interpreter: str, words: Sequence[Word]) -> Program | None:
    """A module runs through this very interpreter; a script finds its own by its first line."""
    while words and isinstance(words[0], str) and _PYTHON_FLAG.fullmatch(words[0]):
        words = words[1:]
    if not words or not isinstance(words[0], str):
        return None
    if words[0] != "-m" or len(words) == 1:
        return _of_command(words[0], words[1:])
    module, arguments = str(words[1]), tuple(words[2:])
    if module in _SERVING_MODULES and arguments[:1] == (_SERVE,):
        return Program(_SERVING_MODULES[module], interpreter, arguments[1:])
    return Program(_MODULES[module], interpreter, arguments) if module in _MODULES else None


def _prefix(words: Sequence[Word]) -> tuple[str, ...]:
    while words and _base(words[0]) in _NEEDLESS:
        words = words[1:]
    if not words:
        return ()
    name = _base(words[0])
    if name in _CONTAINERS:
        raise _container(name)
    if name not in _EXECS or not all(isinstance(word, str) for word in words):
        instead = _INSTEAD.get(name, "give the engine's command alone; only what execs it may stand before, as numactl")
        raise RefusedError(f"cannot start an engine through {name}: {instead}")
    return tuple(map(str, words))


def _container(name: str) -> RefusedError:
    return RefusedError(
        f"cannot make an entry of a {name} command: llmgw runs engines as plain processes; install the engine on the "
        "node, and give the command that runs inside the container, such as `vllm serve org/model`"
    )


def _base(word: Word) -> str:
    return word.rpartition("/")[2] if isinstance(word, str) else f"${word.name}"
