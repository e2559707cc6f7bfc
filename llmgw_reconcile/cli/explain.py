"""`llmgw explain CODE`: the cause and the cure of a diagnostic."""

from __future__ import annotations

import sys

import click

from llmgw_reconcile.cli.options import look_of
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.render.explanations import explanation_of, explanations


@click.command("explain")
@click.argument("code", required=False)
def command(code: str | None) -> int:
    """Say what a diagnostic's code means: why it appears, and what to do. Without a CODE, list them all.

    \b
    Examples:
      llmgw explain port-taken
      llmgw explain 'error[fp8-weight-only]'
      llmgw explain
    """
    from llmgw_reconcile.render.terminal import wrapped

    width = look_of(sys.stdout, "auto").width
    if code is None:
        for name, found in explanations().items():
            click.echo(
                "\n".join(wrapped(found.cause.partition(". ")[0].rstrip("."), width=width, first=f"{name}: ", below=4))
            )
        return 0
    name = code.rpartition("[")[2].rstrip("]:")
    explanation = explanation_of(name)
    if explanation is None:
        raise RefusedError(f"no diagnostic has the code {name}{_near(name)}; `llmgw explain` lists them all")
    click.echo("\n".join(wrapped(explanation.cause, width=width, first="why:   ")))
    click.echo("\n".join(wrapped(explanation.cure, width=width, first="cure:  ")))
    return 0


def _near(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, explanations(), n=1)
    return f"; did you mean {near[0]}?" if near else ""
