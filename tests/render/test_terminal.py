import pytest

from llmgw_reconcile.render.terminal import Style, columns, painter, terminal_width, wants_color, wrapped


@pytest.mark.parametrize(
    ("flag", "environ", "isatty", "color"),
    [
        pytest.param("auto", {}, True, True, id="a-terminal-has-colour"),
        pytest.param("auto", {}, False, False, id="a-pipe-has-none"),
        pytest.param("always", {"NO_COLOR": "1"}, False, True, id="the-flag-decides-alone"),
        pytest.param("never", {"FORCE_COLOR": "1"}, True, False, id="also-against-colour"),
        pytest.param("auto", {"NO_COLOR": "1"}, True, False, id="no-color"),
        pytest.param("auto", {"NO_COLOR": ""}, True, True, id="an-empty-no-color-says-nothing"),
        pytest.param("auto", {"FORCE_COLOR": "1"}, False, True, id="force-color-in-a-pipe"),
        pytest.param("auto", {"FORCE_COLOR": "0"}, True, False, id="force-color-0"),
        pytest.param("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False, id="no-color-wins"),
        pytest.param("auto", {"TERM": "dumb"}, True, False, id="a-dumb-terminal"),
        pytest.param("auto", {"CI": "true"}, True, False, id="a-ci-log"),
        pytest.param("auto", {"CI": "true", "FORCE_COLOR": "1"}, False, True, id="a-ci-log-that-asks-for-it"),
    ],
)
def test_who_gets_colour(flag, environ, isatty, color):
    assert wants_color(flag, environ, isatty=isatty) is color


@pytest.mark.parametrize(
    ("environ", "size", "width"),
    [
        pytest.param({}, 120, 120, id="a-terminal-has-its-width"),
        pytest.param({}, None, None, id="a-pipe-is-not-wrapped"),
        pytest.param({"COLUMNS": "60"}, 120, 60, id="columns-wins"),
        pytest.param({"COLUMNS": "60"}, None, 60, id="columns-wraps-a-pipe"),
        pytest.param({"COLUMNS": "wide"}, 120, 120, id="what-is-no-number-is-ignored"),
        pytest.param({"COLUMNS": "²"}, 120, 120, id="nor-is-a-superscript"),
        pytest.param({"COLUMNS": "0"}, 120, None, id="zero-turns-wrapping-off"),
        pytest.param({}, 0, None, id="a-terminal-without-size"),
        pytest.param({"COLUMNS": "5"}, None, 20, id="never-narrower-than-this"),
    ],
)
def test_where_to_wrap(environ, size, width):
    assert terminal_width(environ, size) == width


def test_paint_is_off_without_colour_and_for_nothing():
    assert painter(color=False)("x", Style.BAD) == "x"
    assert painter(color=True)("x", Style.BAD) == "\x1b[31mx\x1b[0m"
    assert painter(color=True)("x", Style.PLAIN) == "x"
    assert painter(color=True)("", Style.BAD) == ""


@pytest.mark.parametrize(
    ("text", "width", "first", "below", "lines"),
    [
        pytest.param("a b", None, "> ", None, ["> a b"], id="without-a-width-a-line-stays-one"),
        pytest.param("a\nb", None, "> ", None, ["> a", "  b"], id="lines-stay-lines"),
        pytest.param("", None, "> ", None, [">"], id="nothing-leaves-no-blank-at-the-end"),
        pytest.param("one two three four", 24, ">>> ", None, [">>> one two three four"], id="what-fits-stays"),
        pytest.param(
            "one two three four five",
            24,
            ">>> ",
            None,
            [">>> one two three four", "    five"],
            id="under-the-first-word",
        ),
        pytest.param(
            "one two three four",
            24,
            "> a long lead > ",
            None,
            ["> a long lead > one two", "      three four"],
            id="narrow",
        ),
        pytest.param("one two three", 20, "lead: ", 2, ["lead: one two three"], id="up-to-the-last-column"),
        pytest.param("one two three four", 20, "lead: ", 2, ["lead: one two three", "  four"], id="below-as-asked"),
        pytest.param(
            "/a/path/that-is/much/too-long", 20, "", 0, ["/a/path/that-is/much/too-long"], id="words-are-not-broken"
        ),
    ],
)
def test_wrapping(text, width, first, below, lines):
    assert wrapped(text, width=width, first=first, below=below) == lines


def test_columns_are_aligned_without_blanks_at_the_end():
    assert columns([("A", "B", "C"), ("long", "", "x"), ("s", "mid", "")]) == [
        "A     B    C",
        "long       x",
        "s     mid",
    ]
