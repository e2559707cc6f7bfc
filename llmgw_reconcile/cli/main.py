"""The command `llmgw`: each verb's module is imported only when that verb is asked for."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import click

from llmgw_reconcile import __version__
from llmgw_reconcile.errors import LlmgwError, StateFileError

USAGE_ERROR = 64

# verb -> one line of help; the module is llmgw_reconcile.cli.<verb>, its command the attribute `command`.
VERBS = {
    "plan": "Show what apply would do; change nothing.",
    "apply": "Print the diff, then do it; wait until every engine is ready.",
    "status": "Show engines, phases, GPUs, ports, restarts and last exits.",
    "wait": "Wait until all engines are ready (0) or one failed (1).",
    "logs": "Show the log of an engine.",
    "stop": "Stop engines now and hold them.",
    "restart": "Start engines afresh from the recorded spec.",
    "validate": "Check everything that can be checked without the node.",
    "schema": "Print a JSON Schema.",
    "agent": "What a scheduler would see on this node.",
}

EPILOG = """\b
Exit codes:
  0    done; plan: shown, whether or not there are changes
  1    not everything could be done
  2    only plan --detailed-exitcode: there are changes, nothing is blocked
  3    refused, nothing was changed
  4    busy: another apply holds the lock
  64   usage error
  129, 130, 143  interrupted by SIGHUP, SIGINT, SIGTERM"""


class LazyGroup(click.Group):
    """A group that knows its verbs by name and imports the module of the one that is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command; None for an unknown verb."""
        if cmd_name not in VERBS:
            return None
        module = __import__(f"llmgw_reconcile.cli.{cmd_name}", fromlist=["command"])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from the table, so that help imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="llmgw", message="%(prog)s %(version)s")
def command() -> None:
    """Declarative reconciler for LLM inference engines on bare-metal GPU nodes."""


def run() -> None:
    """Entry point: run a verb, and turn every failure into one message and an exit code."""
    sys.exit(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    """Run llmgw with these arguments; the exit code of contract §3."""
    try:
        result: Any = command.main(argv, prog_name="llmgw", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return USAGE_ERROR
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader has seen enough (`| head`); keep the interpreter from flushing into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except StateFileError as error:
        click.echo("\n".join(map(str, error.diagnostics)), err=True)
        return error.exit_code
    except LlmgwError as error:
        click.echo(f"llmgw: {error}", err=True)
        return error.exit_code
    return result if isinstance(result, int) else 0
