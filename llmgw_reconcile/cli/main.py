"""The command `llmgw`: each verb's module is imported only when that verb is asked for."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from llmgw_reconcile import __version__
from llmgw_reconcile.errors import LlmgwError, SignalInterrupt, StateFileError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

USAGE_ERROR = 64

# verb -> one line of help; the module is llmgw_reconcile.cli.<verb> or as MODULES says, its command `command`.
VERBS = {
    "plan": "Show what apply would do; change nothing.",
    "apply": "Print the diff, then do it; wait until every engine is ready.",
    "status": "Show engines, phases, GPUs, ports, restarts and last exits.",
    "wait": "Wait until all engines are ready (0) or one failed (1).",
    "logs": "Show the log of an engine.",
    "stop": "Stop engines now and hold them.",
    "restart": "Start engines afresh from the recorded spec.",
    "validate": "Check everything that can be checked without the node.",
    "fmt": "Lay state files out canonically, comments kept.",
    "schema": "Print a JSON Schema.",
    "init": "Write a commented state file that fits this node.",
    "import": "Write the state file of what runs.",
    "diff": "Compare a state file with the one applied last.",
    "endpoints": "Show who can be routed to now.",
    "events": "Show what was done, when, why and by whom.",
    "explain": "Say a diagnostic's cause and cure.",
    "doctor": "Check this node in a second, with cures.",
    "agent": "The node as a scheduler sees it, and the resident reconcile loop.",
    "completion": "Print the completion script of a shell.",
}
MODULES = {"import": "import_engines"}  # `import` cannot be the name of a module

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
        name = MODULES.get(cmd_name, cmd_name)
        module = __import__(f"llmgw_reconcile.cli.{name}", fromlist=["command"])
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs that begin so, from the table, and the options: a key press must not import every verb."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=text) for verb, text in VERBS.items() if verb.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

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
    _mend_streams()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it would take our children's ends from us
    sys.exit(main(sys.argv[1:]))


def _mend_streams() -> None:
    """Put /dev/null where the caller closed a stream, so that no record gets its number; never fail on a character."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        else:
            stream.reconfigure(errors="backslashreplace")


def main(argv: list[str]) -> int:
    """Run llmgw with these arguments; the exit code of contract §3."""
    try:
        result: Any = command.main(argv, prog_name="llmgw", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        usage = f"{context.get_usage()}\n" if context else ""
        return _fail(USAGE_ERROR, f"{usage}llmgw: {error.format_message()}")
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        from llmgw_reconcile.cli.streams import silence

        silence(sys.stdout)  # the reader has seen enough (`| head`)
        return 0
    except StateFileError as error:
        return _fail(error.exit_code, "\n".join(map(str, error.diagnostics)))
    except (LlmgwError, SignalInterrupt) as error:
        return _fail(error.exit_code, f"llmgw: {error}")
    except OSError as error:  # no descriptors, no space, a working directory that is gone: the machine's, and no bug
        what = f"{error.filename}: " if error.filename else ""
        return _fail(LlmgwError.exit_code, f"llmgw: {what}{error.strerror or error}")
    return result if isinstance(result, int) else 0


def _fail(code: int, message: str) -> int:
    from llmgw_reconcile.cli.streams import write

    try:
        write(f"{message}\n", err=True)
    except LlmgwError:
        pass  # nobody is left to be told
    return code
