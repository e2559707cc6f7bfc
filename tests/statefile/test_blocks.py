"""The blocks of a file: what a comment is, and whose."""

from __future__ import annotations

import pytest

from llmgw_reconcile.statefile.blocks import Block, Flow, Leaf, blocks_of


def root_of(text: str) -> Block:
    source = blocks_of(text)
    assert source is not None
    return source.root


def comments_of(block: Block) -> dict[str, tuple[list[str], list[str]]]:
    """Key -> the comments above it and those on its line; "" -> those below the last key."""
    found = {
        entry.key: ([one.text for one in entry.lead], [one.text for one in entry.behind]) for entry in block.entries
    }
    return found | {"": ([one.text for one in block.tail], [])}


def test_a_comment_is_of_the_key_below_it_or_before_it() -> None:
    text = "# head\na: 1  # one\n# of b\n# and more\nb: [x,  # in\n  y]  # two\n# end\n"
    assert comments_of(root_of(text)) == {
        "a": (["# head"], ["# one"]),
        "b": (["# of b", "# and more"], ["# two"]),
        "": (["# end"], []),
    }


@pytest.mark.parametrize(
    "value", ["'# x'", '"a # x"', "x#y", "|\n  # x\n  y", "[a,\n  # x\n  b]"], ids=lambda value: value[:6]
)
def test_a_sharp_in_a_value_is_no_comment(value: str) -> None:
    assert comments_of(root_of(f"a: {value}\nb: 1\n")) == {"a": ([], []), "b": ([], []), "": ([], [])}


def test_deeper_comments_at_the_end_of_a_block_stay_in_it() -> None:
    (models,) = root_of("m:\n  - a: 1\n    # b: 2\n  # next\n  - a: 3\n").entries
    assert isinstance(models.value, Block)
    first, second = models.value.entries
    assert isinstance(first.value, Block)
    assert [one.text for one in first.value.tail] == ["# b: 2"]
    assert [one.text for one in second.lead] == ["# next"]


def test_values_are_as_they_are_written() -> None:
    entries = root_of("a: 'it''s'\nb: {c: [1,2]}\nd: |\n  x\n\n\ne: [1,\n    2]\n").entries
    assert [entry.value for entry in entries] == [
        Leaf(("'it''s'",)),
        Flow(True, "", (("c", "c", Flow(False, "", (("", "", "1"), ("", "", "2")))),)),
        Leaf(("|", "  x")),
        Leaf(("[1,", "    2]")),
    ]


def test_quoted_keys_keep_their_quotes_and_are_known_by_their_meaning() -> None:
    (entry,) = root_of('"a": 1\n').entries
    assert (entry.key, entry.name) == ('"a"', "a")


def test_json_has_no_blocks() -> None:
    assert blocks_of('{"a": 1}') is None
