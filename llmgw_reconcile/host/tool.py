"""Run tools of the node side by side, bounded in time and output: an argv becomes what the tool answered.

Each tool leads a process group of its own, so that a hung one is ended together with its children. The group is
signalled only while its leader is not reaped yet: until then nobody else can have its number.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

DEFAULT_TIMEOUT = 20.0  # seconds, from the start
OUTPUT_LIMIT = 4 << 20  # bytes, standard output and error together
REAP_TIMEOUT = 1.0  # seconds; a tool that waits inside a broken driver outlives even SIGKILL
LOOK_EVERY = 0.05  # seconds, between two looks at a tool that may have to be given up
NOT_FOUND = "not found on PATH"


class ToolResult(NamedTuple):
    """What a tool answered; `returncode` is None when it did not end by itself, and `problem` then says why."""

    argv: tuple[str, ...]
    returncode: int | None
    stdout: str
    stderr: str
    problem: str = ""


class RunningTool:
    """A tool that was started, or the reason why it could not be; only for `finish_tools` and `end_tools`."""

    __slots__ = ("_output", "_pid", "_pipes", "argv", "deadline", "pidfd", "problem", "returncode", "timeout")

    def __init__(self, argv: Sequence[str], timeout: float) -> None:
        self.argv = tuple(argv)
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.problem = ""
        self.returncode: int | None = None
        self.pidfd = -1
        self._pid = 0  # 0: not started, or reaped
        self._pipes: dict[int, int] = {}  # descriptor -> which output
        self._output = (bytearray(), bytearray())

    def spawn(self, program: str, env: Mapping[str, str]) -> None:
        """Start the program; a failure becomes the problem."""
        writers: list[int] = []
        try:
            for which in (0, 1):
                reader, writer = os.pipe()
                os.set_blocking(reader, False)
                self._pipes[reader] = which
                writers.append(writer)
            self._pid = os.posix_spawn(
                program,
                self.argv,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, writers[0], 1),
                    (os.POSIX_SPAWN_DUP2, writers[1], 2),
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                ],
                setpgroup=0,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores both, and ignoring is inherited
            )
            self.pidfd = os.pidfd_open(self._pid)
        except OSError as error:
            self.problem = f"cannot be started: {error.strerror}"
            self.end()
        finally:
            for writer in writers:
                os.close(writer)

    @property
    def pid(self) -> int:
        """Its process; 0 when it was not started, or was reaped."""
        return self._pid

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What to wait for: more output, or the end. Empty when there is nothing to wait for."""
        return (self.pidfd, *self._pipes) if self.pidfd >= 0 else ()

    def advance(self, ready: frozenset[int]) -> None:
        """Take in what was printed, and end the tool when it is done or has used up its bounds."""
        has_exited = self.pidfd in ready  # asked before reading: all that it printed is in the pipes by now
        for fd in tuple(self._pipes):
            self._drain(fd)
        if has_exited:
            self.end()
        elif sum(map(len, self._output)) > OUTPUT_LIMIT:
            self.problem = f"printed more than {OUTPUT_LIMIT >> 20} MiB"
            self.end()
        elif time.monotonic() >= self.deadline:
            self.problem = f"no answer within {self.timeout:g} s"
            self.end()

    def _drain(self, fd: int) -> None:
        output = self._output[self._pipes[fd]]
        try:
            while len(output) <= OUTPUT_LIMIT:
                chunk = os.read(fd, 1 << 16)
                if not chunk:
                    os.close(fd)
                    del self._pipes[fd]
                    return
                output += chunk
        except BlockingIOError:
            pass

    def end(self) -> None:
        """Kill whatever is left of its group and reap it; harmless when that was done before."""
        if self._pid:
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except OSError:  # a member became another user's
                pass
            self._reap()
        for fd in (*self._pipes, self.pidfd):
            if fd >= 0:
                os.close(fd)
        self._pipes.clear()
        self.pidfd = -1

    def _reap(self) -> None:
        if self.pidfd >= 0:
            wait = select.poll()
            wait.register(self.pidfd, select.POLLIN)
            wait.poll(REAP_TIMEOUT * 1000)
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:  # whoever waits for any child of this process was quicker
            pid, status = self._pid, 0
            self.problem = self.problem or "its exit status was lost"
        self._pid = 0
        if not pid:
            self.problem = f"{self.problem or 'does not end'}; SIGKILL does not end it"
        elif not self.problem and os.WIFSIGNALED(status):
            self.problem = f"ended by {_signal_name(os.WTERMSIG(status))}"
        elif not self.problem:
            self.returncode = os.waitstatus_to_exitcode(status)

    def result(self) -> ToolResult:
        """What there is to tell of it, once it was ended."""
        stdout, stderr = (output.decode("utf-8", "replace") for output in self._output)
        return ToolResult(self.argv, self.returncode, stdout, stderr, self.problem)


def start_tool(
    argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT, env: Mapping[str, str] | None = None
) -> RunningTool:
    """Start a tool found on our PATH, with no standard input; returns at once, also when it cannot be started.

    `timeout` is in seconds and counts from now. Every tool that was started must be handed to `finish_tools` or
    `end_tools`.
    """
    tool = RunningTool(argv, timeout)
    program, tool.problem = _find(argv[0])
    if program:
        tool.spawn(program, os.environ if env is None else env)
    return tool


def finish_tools(
    tools: Iterable[RunningTool], *, give_up: Callable[[RunningTool], str] | None = None
) -> tuple[ToolResult, ...]:
    """Wait until each has ended or used up its time; results in the order of the tools. Nothing is left running.

    A child of a tool that outlives it and keeps its output open is not waited for, but killed. `give_up` is asked now
    and then of a tool that still runs: words end it.
    """
    tools = tuple(tools)
    try:
        while running := [tool for tool in tools if tool.descriptors]:
            wait = select.poll()
            for fd in (fd for tool in running for fd in tool.descriptors):
                wait.register(fd, select.POLLIN)
            patience = min(tool.deadline for tool in running) - time.monotonic()
            patience = patience if give_up is None else min(patience, LOOK_EVERY)
            ready = frozenset(fd for fd, _ in wait.poll(max(0.0, patience) * 1000))
            for tool in running:
                tool.advance(ready)
                if give_up is not None and tool.descriptors and (why := give_up(tool)):
                    tool.problem = why
                    tool.end()
    finally:
        end_tools(tools)
    return tuple(tool.result() for tool in tools)


def end_tools(tools: Iterable[RunningTool]) -> None:
    """Kill and reap tools whose answer nobody wants any more; those that have ended already are left as they are."""
    for tool in tools:
        tool.end()


def _find(name: str) -> tuple[str, str]:
    """The path of a program and no problem, or no path and the problem.

    A file that may not be executed is told apart from none: a tool that is there and broken is no missing tool.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = ""
    for path in [name] if "/" in name else [f"{folder}/{name}" for folder in folders if folder]:
        if os.path.isfile(path):
            if os.access(path, os.X_OK):
                return path, ""
            found = found or path
    return "", f"not executable: {found}" if found else NOT_FOUND


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
