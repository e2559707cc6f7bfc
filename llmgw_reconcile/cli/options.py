"""Options that several verbs share, and what they turn into: the node, and how text is to look."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.render.terminal import terminal_width, wants_color
from llmgw_reconcile.workflow.host import Host, this_host

Command = TypeVar("Command", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """`90s`, `10m`, `1h30m`, or plain seconds; a float of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; a usage error for anything else."""
        import re

        if isinstance(value, (int, float)):
            return float(value)
        match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", value)
        if match is None or not value:
            self.fail(f"{value!r} is no duration; write 90s, 10m or 1h30m", param, ctx)
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return hours * 3600 + minutes * 60 + seconds


class Look(NamedTuple):
    """How text on one stream is to look; `width` None: not wrapped."""

    color: bool
    width: int | None


def node_options(command: Command) -> Command:
    """--state-dir and --node."""
    command = click.option("--state-dir", metavar="DIR", help="Where the records of this node are.")(command)
    return click.option("--node", metavar="NAME", help="What this node is called, instead of its host name.")(command)


def color_option(command: Command) -> Command:
    """--color."""
    return click.option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour."
    )(command)


def quiet_option(command: Command) -> Command:
    """-q."""
    return click.option("-q", "--quiet", is_flag=True, help="Only what went wrong.")(command)


def look_options(command: Command) -> Command:
    """--color, -v and -q."""
    command = quiet_option(color_option(command))
    return click.option("-v", "--verbose", is_flag=True, help="Also what stays as it is.")(command)


def output_option(*formats: str) -> Callable[[Command], Command]:
    """-o/--output."""
    return click.option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], help="What to write.", show_default=True
    )


def host_from(state_dir: str | None, node: str | None) -> Host:
    """This node. Raises NodeError on another system than Linux."""
    if sys.platform != "linux":
        raise NodeError(
            f"this verb reads /proc and runs engines: it needs Linux, and this is {sys.platform}; "
            "`llmgw plan STATE --from SNAPSHOT.json` plans for a recorded node anywhere"
        )
    return this_host(state_dir=state_dir, node=node, environ=os.environ)


def look_of(stream: Any, color: str) -> Look:
    """How text on this stream is to look."""
    is_terminal = stream.isatty()
    columns = os.get_terminal_size(stream.fileno()).columns if is_terminal else None
    return Look(wants_color(color, os.environ, isatty=is_terminal), terminal_width(os.environ, columns))
