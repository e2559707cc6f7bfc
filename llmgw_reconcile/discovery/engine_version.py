"""Ask installed engines about themselves, and keep their answers by the identity of the executable.

An answer takes an engine's imports, 10 to 30 s: it is asked once, and read from the cache ever after. The cache holds
the text as it was printed, so that a later llmgw understands it in its own way.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.files import private_directory, read_json, write_json
from llmgw_reconcile.host.proc import descendants_of
from llmgw_reconcile.host.sockets import owned_inodes, tcp_listeners
from llmgw_reconcile.host.tool import RunningTool, ToolResult, finish_tools, start_tool

FORMAT_VERSION = 1
TIMEOUT = 60.0  # seconds for each question
TEXT_LIMIT = 1 << 20  # characters of an answer; vLLM's help has some 200,000
TIMED_OUT = "no answer within"

# Not for an engine that only answers: its folder may not be there yet, and it is not the engine of that name.
_NOT_PASSED_ON = ("TMPDIR", "LLMGW_ENGINE", "LLMGW_LAUNCH")
_SAFE_PATH = {"PYTHONSAFEPATH": "1"}  # else python -m finds modules in llmgw's own working directory first


class Questions(NamedTuple):
    """The command lines that make an engine name its version and list its flags; of the latter the next is a retry."""

    version: tuple[str, ...]
    help: tuple[tuple[str, ...], ...]

    @property
    def executable(self) -> str:
        """Who is asked."""
        return self.version[0]


class Answers(NamedTuple):
    """What an engine printed; empty where it did not answer."""

    version: str = ""
    help: str = ""
    is_final: bool = True  # False: it was too slow, and may answer another time


def cache_folder(environ: Mapping[str, str]) -> str:
    """Where the answers lie: XDG_CACHE_HOME, else ~/.cache; a relative path is no place (XDG base directories)."""
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")
    return os.path.join(base, "llmgw", "engines")


def recall(folder: str, questions: Questions) -> Answers | None:
    """The answers of exactly this executable as it is now; None where it was never asked, or changed since."""
    identity = _identity(questions)
    found = None if identity is None else _record(_place(folder, questions), identity)
    if found is None or found.get("is_final") is not True:
        return None
    version, text = found.get("version"), found.get("help")
    return Answers(version, text) if isinstance(version, str) and isinstance(text, str) else None


def remember(folder: str, questions: Questions, answers: Answers) -> None:
    """Keep the answers, in place of older ones of the same executable. A cache that cannot be written is none.

    One that was too slow is asked once more, another time: the first imports after an installation take longest.
    """
    identity, place = _identity(questions), _place(folder, questions)
    if identity is None:
        return
    is_final = answers.is_final or _record(place, identity) is not None
    record = {"identity": identity, "version": answers.version, "help": answers.help, "is_final": is_final}
    try:
        private_directory(os.path.dirname(folder))
        private_directory(folder)
        write_json(place, {"format_version": FORMAT_VERSION, **record})
    except NodeError:
        return


def _record(place: str, identity: list[object]) -> dict[str, Any] | None:
    try:
        found = read_json(place, lambda record: record.get("format_version") == FORMAT_VERSION)
    except ValueError:
        return None
    return found if found is not None and found.get("identity") == identity else None


def ask(asked: Sequence[tuple[Questions, Mapping[str, str]]]) -> tuple[Answers, ...]:
    """The answers of each executable, asked side by side in the given environment; in the order of `asked`.

    An executable that listens on a port took the question for a start: it is ended, and has not answered.
    """
    tools = [start_tool(q, timeout=TIMEOUT, env=_own(env)) for one, env in asked for q in (one.version, one.help[0])]
    results = finish_tools(tools, give_up=_listens)
    found = []
    for (questions, env), version, listed in zip(asked, results[::2], results[1::2], strict=True):
        for retry in questions.help[1:]:
            if listed.returncode not in (None, 0) and version.returncode == 0:
                (listed,) = finish_tools([start_tool(retry, timeout=TIMEOUT, env=_own(env))], give_up=_listens)
        slow = any(result.problem.startswith(TIMED_OUT) for result in (version, listed))
        found.append(Answers(_text(version), _text(listed), is_final=not slow))
    return tuple(found)


def _own(env: Mapping[str, str]) -> dict[str, str]:
    return {**{name: value for name, value in env.items() if name not in _NOT_PASSED_ON}, **_SAFE_PATH}


def _text(result: ToolResult) -> str:
    """llama-server names its version on standard error."""
    return f"{result.stdout}\n{result.stderr}"[:TEXT_LIMIT].strip() if result.returncode == 0 else ""


def _listens(tool: RunningTool) -> str:
    pids = (tool.pid, *(process.pid for process in descendants_of(tool.pid)))
    inodes = frozenset(listener.inode for listener in tcp_listeners())
    return "it listens on a port instead" if owned_inodes(pids, inodes) else ""


def _identity(questions: Questions) -> list[object] | None:
    """What changes when another engine is installed there: the file, and what an interpreter would import.

    The command lines belong to it: another llmgw may ask otherwise.
    """
    path = questions.executable
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [list(questions.version), os.path.realpath(path), found.st_mtime_ns, found.st_size, _packages(path)]


def _packages(path: str) -> list[list[object]]:
    """The folders of packages beside an executable in a virtual environment, and when something was last installed."""
    lib = os.path.join(os.path.dirname(os.path.dirname(path)), "lib")
    return [[folder, changed] for folder in _versions(lib) if (changed := _changed(lib, folder)) is not None]


def _versions(lib: str) -> Iterable[str]:
    try:
        return sorted(name for name in os.listdir(lib) if name.startswith("python"))
    except OSError:
        return ()


def _changed(lib: str, folder: str) -> int | None:
    try:
        return os.stat(os.path.join(lib, folder, "site-packages")).st_mtime_ns
    except OSError:
        return None


def _place(folder: str, questions: Questions) -> str:
    name = hashlib.sha256("\0".join(questions.version).encode()).hexdigest()[:16]
    return os.path.join(folder, f"{name}.json")
