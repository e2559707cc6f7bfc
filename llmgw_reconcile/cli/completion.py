"""`llmgw completion SHELL`: print the script that completes verbs, options and file names in a shell."""

from __future__ import annotations

import click

VARIABLE = "_LLMGW_COMPLETE"  # click looks for it under the name of the program


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the completion script of a shell, to be evaluated when the shell starts.

    \b
    Examples:
      eval "$(llmgw completion bash)"                       in ~/.bashrc
      eval "$(llmgw completion zsh)"                        in ~/.zshrc
      llmgw completion fish > ~/.config/fish/completions/llmgw.fish
    """
    from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

    root = context.find_root().command
    kinds: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    script = kinds[shell](root, {}, "llmgw", VARIABLE)  # its own `source` would start a bash, to see how old it is
    click.echo(script.source_template % script.source_vars())
    return 0
