"""`llmgw schema NAME`: print a JSON Schema."""

from __future__ import annotations

import click

from llmgw_reconcile.host.schema_files import SCHEMA_NAMES, schema_text


@click.command()
@click.argument("name", type=click.Choice(SCHEMA_NAMES))
def command(name: str) -> int:
    """Print the JSON Schema of a document: of the state file, or of what llmgw prints with -o json.

    \b
    Examples:
      llmgw schema state > state.schema.json
      llmgw schema plan
    """
    click.echo(schema_text(name), nl=False)
    return 0
