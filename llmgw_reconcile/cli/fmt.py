"""`llmgw fmt STATE...`: lay state files out canonically, comments kept, their meaning never changed."""

from __future__ import annotations

import click

from llmgw_reconcile.errors import LlmgwError, RefusedError, StateFileError


@click.command("fmt")
@click.argument("states", metavar="STATE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--check", is_flag=True, help="Change nothing; exit 1 when something would be changed.")
def command(states: tuple[str, ...], check: bool) -> int:  # noqa: FBT001 - click passes flags by name
    """Lay state files out canonically: keys in the documented order, two spaces a level, comments kept.

    The name of each file that is changed is printed. STATE may be - for standard input, which is written to
    standard output. A file that is not valid is left alone, and the exit code is 3.

    \b
    Examples:
      llmgw fmt states/node.yaml
      llmgw fmt --check states/*.yaml
      llmgw fmt - < node.yaml > formatted.yaml
    """
    codes = []
    for state in states:
        try:
            codes.append(_format(state, check=check))
        except StateFileError as error:
            click.echo("\n".join(map(str, error.diagnostics)), err=True)
            codes.append(error.exit_code)
        except LlmgwError as error:
            click.echo(f"llmgw: {error}", err=True)
            codes.append(error.exit_code)
    return max(codes)


def _format(path: str, *, check: bool) -> int:
    from llmgw_reconcile.host.rewrite import check_rewritable, rewrite
    from llmgw_reconcile.statefile.read import read_state

    if path != "-" and not check:
        check_rewritable(path)
    data, base = read_state(path)
    laid_out = canonical(path, data, base)
    changed = laid_out != data
    if path == "-" and not check:
        click.echo(laid_out, nl=False)
    elif changed:
        if not check:
            rewrite(path, laid_out)
        click.echo(click.format_filename(path))
    return 1 if check and changed else 0


def canonical(path: str, data: bytes, base: str) -> bytes:
    """The file laid out anew. Raises StateFileError if it does not load, RefusedError if its meaning would change.

    Files that `args` name are not read: their content is not the layout's business.
    """
    from llmgw_reconcile.statefile.layout import canonical_layout, same_meaning
    from llmgw_reconcile.statefile.load import load_state, state_schema

    load_state(path, data, base=base, read_file=lambda _: b"")
    laid_out = canonical_layout(data, state_schema())
    if not same_meaning(data, laid_out):
        raise RefusedError(
            f"cannot lay out {path}: the new layout would mean something else, so the file is left as it is; "
            "a block scalar (| or >) or an anchor in it is written in a way that cannot be moved"
        )
    return laid_out
