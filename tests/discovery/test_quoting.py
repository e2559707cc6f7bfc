import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.quoting import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("one\n\n  two \t three\n", "one; two three", id="lines-are-joined"),
        pytest.param("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b", id="terminal-escapes"),
        pytest.param("a\u202eb", "a\\u202eb", id="text-direction-marks"),
        pytest.param("x" * 20, "xxxxxxx…", id="long-text-is-cut"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_foreign_text_is_shown_on_one_safe_line(text, shown):
    assert one_line(text, limit=8 if text.startswith("x") else 300) == shown


@given(st.text())
def test_any_text_becomes_printable_and_short(text):
    assert one_line(text, 40).isprintable()
    assert len(one_line(text, 40)) <= 40
