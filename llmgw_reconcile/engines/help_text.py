"""Turn the help text of an engine into its options: argparse's layout (vLLM, SGLang), and llama-server's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from llmgw_reconcile.model.installed import Option

DEEPEST_OPTION = 4  # columns; what an option means is indented further
SURELY_LISTED = "--port"  # every server has it; a help text without it lists groups, or is none


def parse_help(text: str) -> tuple[Option, ...]:
    """Every option of a help text, in its order; none when the text does not list them all.

    >>> parse_help("options:\\n  --port PORT, -p PORT  Where to listen. (default: 8000)\\n")
    (Option(names=('--port', '-p'), takes_value=True, choices=(), default='8000', removed=None),)
    """
    options = tuple(_option(lines) for lines in _paragraphs(text.splitlines()))
    return options if any(SURELY_LISTED in option.names for option in options) else ()


def _paragraphs(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines of each option: its own, and those that are indented below it."""
    found: list[str] = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if re.match(r"--?[A-Za-z]", line.lstrip()) and depth <= DEEPEST_OPTION:
            if found:
                yield found
            found = [line]
        elif found and depth > DEEPEST_OPTION:
            found.append(line)
        elif found and line.strip():
            yield found
            found = []
    if found:
        yield found


def _option(lines: list[str]) -> Option:
    head, *same_line = re.split(r"\s{2,}", re.sub(r",\s+", ", ", lines[0].strip()), maxsplit=1)
    spellings = [words.split() for words in re.sub(r"\{[^}]*\}|\[[^\]]*\]|<[^>]*>", " <> ", head).split(", ")]
    names = tuple(words[0] for words in spellings if words and words[0].startswith("-"))
    value = [word for words in spellings for word in words if word not in names]
    meaning = " ".join([*same_line, *(line.strip() for line in lines[1:])])
    default = re.search(r"\(default: ([^()]*)\)", meaning)
    removed = re.search(r"has been removed\.?\s*([^(]*)", meaning)
    return Option(
        names,
        bool(value),
        _choices(head, value),
        default[1].strip() if default else None,
        removed[1].strip() if removed else None,
    )


def _choices(head: str, value: list[str]) -> tuple[str, ...]:
    """Only a bare list is exhaustive: behind `{a,b} or a name` anything may follow."""
    listed = re.search(r"\{([^}]*)\}", head)
    if listed is None or set(value) != {"<>"}:
        return ()
    return tuple(choice.strip().strip("'\"") for choice in listed[1].split(","))
