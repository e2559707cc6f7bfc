import pytest

from llmgw_reconcile.statefile.tree import Entries, Scalar, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-0", 0),
        ("-17", -17),
        ("8000", 8000),
        ("0.9", 0.9),
        ("-1.50", -1.5),
    ],
)
def test_a_plain_scalar_is_a_boolean_or_a_number_only_in_its_plainest_form(text, value):
    found = resolve(Scalar(text, True, 1, 1))
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "text",
    [
        *("no", "yes", "On", "True", "FALSE", "null", "~", "010", "08000", "0x1F90", "8_000", "1e3", "1.", ".5", "+1"),
        *("22:22", ".inf", ".nan", "2026-01-01", "1.10.0", "--1", "-", "=", "٣"),
    ],
)
def test_every_other_plain_scalar_is_text(text):
    assert resolve(Scalar(text, True, 1, 1)) == text


def test_a_quoted_scalar_is_text_whatever_it_looks_like():
    assert resolve(Scalar("true", False, 1, 1)) == "true"
    assert resolve(Scalar("8000", False, 1, 1)) == "8000"


def test_an_integer_of_five_thousand_digits_is_a_number_beyond_every_bound():
    assert resolve(Scalar("9" * 5000, True, 1, 1)) > 10**100
    assert resolve(Scalar("-" + "9" * 5000, True, 1, 1)) < -(10**100)


def test_of_a_key_given_twice_the_first_counts():
    first, second = Scalar("a", True, 1, 4), Scalar("b", True, 2, 4)
    mapping = Entries(((Scalar("k", True, 1, 1), first), (Scalar("k", True, 2, 1), second)), 1, 1)
    assert mapping.fields == {"k": first}
