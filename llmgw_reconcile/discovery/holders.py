"""Turn a pid that holds GPU memory into who that is: user, program, and the engine when the process is ours."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmgw_reconcile.discovery.claims import Claim
from llmgw_reconcile.discovery.nvidia_cards import GpuProcess
from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.model.gpu import Holder, HolderKind

if TYPE_CHECKING:
    from llmgw_reconcile.discovery.owners import Owners

READ_LIMIT = 4096  # bytes of a command line
COMMAND_LIMIT = 80  # characters that are shown of it
SCRIPT_INTERPRETERS = r"(ba|da|z|k)?sh|perl[\d.]*|ruby[\d.]*|node|julia"
PYTHON = r"(python|pypy)[\d.]*"
# CPython's options: those without a value may be run together, and -c, -m, -W and -X take the rest or the next word.
PYTHON_OPTION = r"-[bBdEhiIOqsSuvVxP]*([cmWX]?)(.*)"


def find_holder(process: GpuProcess, owners: Owners) -> Holder:
    """The process as a holder, and whose it is.

    Where /proc does not show the process (it ended, or lives in another pid namespace), the driver's name for it stays.
    """
    user, command = describe_process(process.pid, owners.proc_root)
    if command is None and process.name:
        command = command_of((process.name,))
    kind, engine = owners.owner_of(process.pid)
    return Holder(process.pid, user, command, process.memory_mb, engine, kind)


def claimant(claim: Claim, proc_root: str = "/proc") -> Holder:
    """A supervisor of another llmgw as the holder of the cards that it names; it uses no memory of them itself."""
    return Holder(claim.pid, _owner(f"{proc_root}/{claim.pid}"), claim.title, None, None, HolderKind.OTHER_LLMGW)


def describe_process(pid: int, proc_root: str = "/proc") -> tuple[str | None, str | None]:
    """User and command of a process, both for people; None for what cannot be seen."""
    return _owner(f"{proc_root}/{pid}"), command_of(_command_line(f"{proc_root}/{pid}/cmdline"))


def command_of(argv: Sequence[str]) -> str | None:
    """The program, and script or module of an interpreter; never an argument, since those may hold secrets.

    >>> command_of(("/usr/bin/python3", "-u", "-m", "vllm.entrypoints.openai.api_server", "--api-key", "x"))
    'python3 -m vllm.entrypoints.openai.api_server'
    """
    if not argv or not argv[0].strip():
        return None
    # A process that renamed itself has all its words in the first one.
    program = os.path.basename(argv[0].split()[0])
    if re.fullmatch(PYTHON, program):
        shown = f"{program}{_python_script(argv[1:])}"
    elif re.fullmatch(SCRIPT_INTERPRETERS, program) and len(argv) > 1 and not argv[1].startswith("-"):
        shown = f"{program} {os.path.basename(argv[1])}"
    else:
        shown = program
    return one_line(shown, COMMAND_LIMIT) or None


def _python_script(arguments: Sequence[str]) -> str:
    """` -m module`, ` script.py`, or nothing where the code itself stands in the command line."""
    words = iter(arguments)
    for word in words:
        option = re.fullmatch(PYTHON_OPTION, word, re.DOTALL)
        if option is None:
            return f" {os.path.basename(word)}" if not word.startswith("-") else ""
        letter, value = option.groups()
        if letter == "m":
            return f" -m {value or next(words, '')}".rstrip()
        if letter == "c" or word == "-" or (value and not letter):
            return ""
        if letter and not value:
            next(words, None)
    return ""


def _command_line(path: str) -> tuple[str, ...]:
    try:
        with open(path, "rb") as file:
            data = file.read(READ_LIMIT)
    except OSError:
        return ()
    return tuple(data.rstrip(b"\0").decode("utf-8", "replace").split("\0")) if data.strip(b"\0") else ()


def _owner(folder: str) -> str | None:
    """The effective user; the folder itself is root's for every process that may not be dumped (proc(5))."""
    try:
        uid = _uid(f"{folder}/status")
        uid = os.stat(folder).st_uid if uid is None else uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _uid(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            match = re.search(rb"^Uid:\s+\d+\s+(\d+)", file.read(READ_LIMIT), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None
