"""A command as a model's page shows it to the variables before it and its words, without a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.model.desired import SecretRef

Word = str | SecretRef  # a reference: what the shell would put there is not known

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_FLAG_OF_A_VARIABLE = re.compile(rf"(--?[A-Za-z][A-Za-z0-9_-]*)=({_VARIABLE.pattern})")
_OPERATORS = "();<>|&"


class ShellCommand(NamedTuple):
    """What the shell would run, and the variables that it would set for that alone."""

    variables: dict[str, Word]
    words: tuple[Word, ...]


def shell_command(text: str, *, home: str) -> ShellCommand:
    """The one simple command in `text`. Raises RefusedError for whatever needs a shell, naming it.

    `$NAME` as a whole value becomes a reference, `~/` becomes `home`.
    """
    words = _split(text, home)
    if words[:1] == ["env"]:
        words = words[1:]
    variables: dict[str, Word] = {}
    while words and (found := _ASSIGNMENT.fullmatch(words[0])):
        variables[found[1]] = _word(found[2])
        words = words[1:]
    return ShellCommand(variables, tuple(part for word in words for part in _parts(word)))


def _split(text: str, home: str) -> list[str]:
    text = "\n".join(map(_without_comment, text.replace("\\\n", " ").strip().splitlines()))
    lexer = shlex.shlex(text.removeprefix("$ "), posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = [f"{home}/{word[2:]}" if word.startswith("~/") else word for word in lexer]
    except ValueError as error:
        raise RefusedError(f"cannot read the command: {str(error).lower()}; quote it as a shell needs it") from None
    for word in words:
        if (word and set(word) <= set(_OPERATORS)) or "`" in word:
            raise RefusedError(
                f"cannot read the command: `{word}` is for a shell; give the engine's command alone, with values in "
                "place of <placeholders>"
            )
    return words


def _parts(word: str) -> Iterator[Word]:
    if found := _FLAG_OF_A_VARIABLE.fullmatch(word):
        yield found[1]
        word = found[2]
    yield _word(word)


def _word(word: str) -> Word:
    found = _VARIABLE.search(word)
    if found is None:
        return word
    if found[0] != word:
        raise RefusedError(f"cannot read the command: only your shell knows {found[0]}; write its value instead")
    return SecretRef("env", found[1] or found[2])


def _without_comment(line: str) -> str:
    """The line up to a `#` that begins a word outside of quotes."""
    for found in re.finditer(r"(?:^|\s)#", line):
        before = line[: found.start()]
        if before.count("'") % 2 == 0 and before.count('"') % 2 == 0:
            return before
    return line
