"""What holds for every verb: it has help, an example, and a line in the list."""

from __future__ import annotations

import click
import pytest

from llmgw_reconcile.cli.main import VERBS, command


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command that does something, as the words that call it."""
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        below = group.get_command(context, name)
        assert below is not None
        found += leaves(below, (*path, name)) if isinstance(below, click.Group) else [(*path, name)]
    return found


def verb(words: tuple[str, ...]) -> click.Command:
    found: click.Command = command
    for word in words:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), word)
        assert below is not None
        found = below
    return found


LEAVES = leaves(command)
# Verbs that still lack an example: a name goes when its example comes.
PLAIN = {("wait",), ("logs",), ("stop",), ("restart",)}


@pytest.mark.parametrize("words", [words for words in LEAVES if words not in PLAIN], ids=" ".join)
def test_a_verb_says_what_it_does_and_shows_an_example(words: tuple[str, ...]) -> None:
    help_text = verb(words).help or ""
    sentence, _, rest = help_text.partition("\n")
    assert sentence.endswith((".", ":"))
    examples = rest.partition("Examples:\n")[2].splitlines() or rest.partition("Example:\n")[2].splitlines()
    assert any(" ".join(("llmgw", *words)) in line for line in examples), "show an example of the call"


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_examples_stand_one_a_line(words: tuple[str, ...]) -> None:
    text = verb(words).get_help(click.Context(verb(words), info_name=" ".join(words), terminal_width=80))
    shown = [line for line in text.splitlines() if line.strip().startswith(("llmgw ", "eval "))]
    assert len(shown) == sum(
        line.strip().startswith(("llmgw ", "eval ")) for line in (verb(words).help or "").splitlines()
    )


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_option_says_what_it_is_for(words: tuple[str, ...]) -> None:
    options = [option for option in verb(words).params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_the_list_of_verbs_fits_eighty_columns() -> None:
    text = command.get_help(click.Context(command, info_name="llmgw", terminal_width=80))
    assert max(map(len, text.splitlines())) <= 80
    for name, line in VERBS.items():
        assert line.endswith(".")
        assert f"  {name} " in text
