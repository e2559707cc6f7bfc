"""Run llmgw and let SIGKILL strike it at one operation: `python killed.py POINT ARGUMENT…`.

POINT is `FUNCTION:WORD:before` or `…:after`: the first call of a function of `WATCHED` whose arguments hold the word (a
descriptor stands for the path behind it); or a number: before that operation of all. A run that comes to its end ends
as llmgw does.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from llmgw_reconcile.cli.main import main

WATCHED = {
    os: ("fsync", "mkdir", "posix_spawn", "replace", "rmdir", "unlink", "write"),
    fcntl: ("flock",),
    signal: ("pidfd_send_signal",),
}


def named(arguments: tuple[Any, ...]) -> str:
    """The arguments as text."""
    texts = []
    for argument in arguments:
        try:
            texts.append(os.readlink(f"/proc/self/fd/{argument}") if isinstance(argument, int) else str(argument))
        except OSError:
            texts.append(str(argument))
    return " ".join(texts)


def watched(function: Callable[..., Any], strikes: Callable[[str, str, str], bool]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        text = named(arguments)
        if strikes(function.__name__, text, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **options)
        if strikes(function.__name__, text, "after"):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


def at(point: str) -> Callable[[str, str, str], bool]:
    if point.isdigit():
        left = [int(point)]

        def counted(name: str, text: str, when: str) -> bool:
            left[0] -= when == "before"
            return left[0] < 0

        return counted
    function, word, moment = point.split(":")
    return lambda name, text, when: (name, when) == (function, moment) and word in text


if __name__ == "__main__":
    strikes = at(sys.argv[1])
    for module, names in WATCHED.items():
        for name in names:
            setattr(module, name, watched(getattr(module, name), strikes))
    sys.exit(main(sys.argv[2:]))
