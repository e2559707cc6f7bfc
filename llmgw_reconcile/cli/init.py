"""`llmgw init`: write a first state file, for what this node has or for a command that a model's page gives."""

from __future__ import annotations

import os

import click

from llmgw_reconcile.cli.options import host_from, node_options
from llmgw_reconcile.errors import Diagnostic, Severity, StateFileError


@click.command("init")
@click.argument("file", required=False, type=click.Path())
@click.option("--command", "line", metavar="COMMAND", help="Make an entry of this command, quoted as one word.")
@node_options
def command(file: str | None, line: str | None, state_dir: str | None, node: str | None) -> int:
    """Write a commented state file that fits this node: its GPUs, its engines and a free port.

    It goes to standard output, or to a FILE that does not exist yet. With --command, the file holds one entry that
    says what the command says; secrets in it become references, and whatever cannot be taken over is named.

    \b
    Examples:
      llmgw init node.yaml
      llmgw init --command 'vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4'
      llmgw init new.yaml --command 'HF_TOKEN=$HF_TOKEN vllm serve org/model'
    """
    if file is not None and os.path.lexists(file):
        from llmgw_reconcile.host.rewrite import existing_file

        raise existing_file(file)
    text = _for_node(state_dir, node) if line is None else _for_command(line)
    if file is None:
        click.echo(text, nl=False)
    else:
        from llmgw_reconcile.host.rewrite import write_new

        write_new(file, text.encode())
        click.echo(
            f"wrote {click.format_filename(file)}; see what it would do: llmgw plan {click.format_filename(file)}"
        )
    return 0


def _for_node(state_dir: str | None, node: str | None) -> str:
    from llmgw_reconcile.host.sockets import tcp_listeners
    from llmgw_reconcile.workflow.engines_here import installed_engines
    from llmgw_reconcile.workflow.glance import glance
    from llmgw_reconcile.workflow.starter import starter_state

    host = host_from(state_dir, node)
    busy = {listener.port for listener in tcp_listeners()}
    return starter_state(glance(host).inventory, installed_engines(host.environ), busy)


def _for_command(line: str) -> str:
    """The file for a command. Raises RefusedError if that cannot be read, StateFileError if no entry can say it."""
    from llmgw_reconcile.engines.program import program_in
    from llmgw_reconcile.engines.reading import read_command
    from llmgw_reconcile.engines.shell_words import shell_command
    from llmgw_reconcile.render.diagnostics import diagnostics_text
    from llmgw_reconcile.statefile.entry import entry_lines, state_text
    from llmgw_reconcile.workflow.foreign_entries import place_at, with_name
    from llmgw_reconcile.workflow.importing import refusals_of

    asked = shell_command(line, home=os.path.expanduser("~"))
    reading = read_command(program_in(asked.words), asked.variables, place_at(os.getcwd()))
    entry = entry_lines(with_name(reading.fields, ()), reading.remarks)
    if refusals := refusals_of([entry]):
        raise StateFileError(refusal._replace(where="--command") for refusal in refusals)
    warnings = [
        Diagnostic(Severity.WARNING, "command-remark", field, sentence)
        for field, remark in reading.remarks.items()
        for sentence in remark.splitlines()
    ]
    click.echo(diagnostics_text(warnings), err=True, nl=False)
    return state_text((), {}, [entry])
