import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.model.safe_text import mask, neutralise


@pytest.mark.parametrize(
    ("text", "values", "masked"),
    [
        pytest.param("key hunter2 used", ["hunter2"], "key (secret) used", id="a-value-is-masked"),
        pytest.param("a=hunter2&b=hunter2", ["hunter2"], "a=(secret)&b=(secret)", id="wherever-it-stands"),
        pytest.param("hunter2-long", ["hunter2", "hunter2-long"], "(secret)", id="the-longest-first"),
        pytest.param("yes and no", ["no"], "yes and no", id="a-very-short-one-would-spoil-the-text"),
        pytest.param("the secret word", ["secret"], "the (secret) word", id="one-that-is-the-mask-itself"),
        pytest.param("a.c abc", ["a.c "], "(secret)abc", id="no-pattern"),
        pytest.param("plain", [], "plain", id="nothing-to-mask"),
    ],
)
def test_secrets_are_masked_by_value(text, values, masked):
    assert mask(text, values) == masked


@given(st.text(alphabet="abcs().", max_size=40), st.lists(st.text(alphabet="abc.", min_size=4, max_size=8)))
def test_no_value_survives(text, values):
    masked = mask(text, values)
    assert not any(value in part for value in values for part in masked.split("(secret)"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain text\twith tab, é and 日本", "plain text\twith tab, é and 日本", id="text-stays"),
        pytest.param("\x1b[1;31mred\x1b[0m", "red", id="colour-goes"),
        pytest.param("\x1b]0;title\x07x\x1b]8;;u\x1b\\y", "xy", id="titles-and-links-go"),
        pytest.param("\x1bPq\x1b\\", "\\x1bPq\\x1b\\", id="other-sequences-are-shown"),
        pytest.param("a\x1b[", "a\\x1b[", id="so-is-one-that-is-cut-off"),
        pytest.param("50%\r60%\n\0\x7f\x9b", "50%\\x0d60%\\x0a\\x00\\x7f\\x9b", id="control-characters-are-shown"),
        pytest.param("a\u202eb\u2066c\u2028", "a\\u202eb\\u2066c\\u2028", id="so-is-what-turns-the-reading-direction"),
        pytest.param("caf\udce9", "caf\\xe9", id="so-is-a-byte-that-is-no-text"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_line_of_others_is_made_neutral(text, shown):
    assert neutralise(text) == shown


@pytest.mark.parametrize(("width", "shown"), [(10, "0123456789"), (9, "012345..."), (3, "..."), (None, "0123456789")])
def test_a_line_is_cut_to_a_width(width, shown):
    assert neutralise("0123456789", width) == shown


@given(st.text(alphabet=st.characters(codec=None), max_size=60), st.integers(min_value=3, max_value=30))
def test_nothing_that_a_terminal_obeys_is_left(text, width):
    shown = neutralise(text, width)
    assert len(shown) <= width
    assert all(c == "\t" or not (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000) for c in shown)
