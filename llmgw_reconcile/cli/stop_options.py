"""Options of the verbs that stop engines: how they are let finish their requests, and why they are stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from llmgw_reconcile.cli.options import Duration
from llmgw_reconcile.supervise.drain import DEFAULT_DRAIN

Command = TypeVar("Command", bound=Callable[..., Any])


def stop_options(command: Command) -> Command:
    """--drain and --reason."""
    command = click.option(
        "--drain",
        type=Duration(),
        default=DEFAULT_DRAIN,
        metavar="D",
        help="Let an engine that is to stop finish its requests for so long.  [default: 30s]",
    )(command)
    return click.option("--reason", metavar="TEXT", help="Why this is done, for `llmgw events`.")(command)
