import codecs
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.statefile.document import READER, UnreadableError, parse_document
from llmgw_reconcile.statefile.tree import Broken, Entries, Items, Scalar

READERS = [pytest.param(yaml.CSafeLoader, id="libyaml"), pytest.param(yaml.SafeLoader, id="pure-python")]
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def refusal(data: bytes, reader=READER):
    with pytest.raises(UnreadableError) as caught:
        parse_document(data, reader)
    return caught.value.finding


@pytest.mark.parametrize("reader", READERS)
def test_every_node_knows_its_line_and_column_and_whether_it_was_quoted(reader):
    assert parse_document(b"a: 1\nb:\n  - 'x'\n  - {}\n", reader) == Entries(
        (
            (Scalar("a", True, 1, 1), Scalar("1", True, 1, 4)),
            (
                Scalar("b", True, 2, 1),
                Items((Scalar("x", False, 3, 5), Entries((), 4, 5)), 3, 3),
            ),
        ),
        1,
        1,
    )


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(codecs.BOM_UTF8 + b"k: \xc3\xa9\n", id="utf-8-with-mark"),
        pytest.param(codecs.BOM_UTF16_LE + "k: é\n".encode("utf-16-le"), id="utf-16-little"),
        pytest.param(codecs.BOM_UTF16_BE + "k: é\n".encode("utf-16-be"), id="utf-16-big"),
        pytest.param(b"k: \xc3\xa9\r\n", id="crlf"),
        pytest.param(b"%YAML 1.2\n---\nk: \xc3\xa9\n...\n", id="directive-and-markers"),
    ],
)
def test_encodings_and_line_ends_of_other_systems_are_read(reader, data):
    root = parse_document(data, reader)
    assert [(key.text, value.text) for key, value in root.pairs] == [("k", "é")]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("data", "code", "line", "column"),
    [
        pytest.param(b"", "state-empty", 1, 1, id="nothing"),
        pytest.param(b"# only\n# words\n", "state-empty", 1, 1, id="comments"),
        pytest.param(b"---\n", "state-empty", 2, 1, id="a-marker"),
        pytest.param(b"a: 1\n---\nb: 2\n", "yaml-documents", 2, 1, id="two-documents"),
        pytest.param(b"a: 1\nb: \xff\n", "yaml-encoding", 2, 4, id="invalid-utf-8"),
        pytest.param(b"a: 1\nb: x\x00\n", "yaml-character", 2, 5, id="nul"),
        pytest.param(b"a: \x1b[31m\n", "yaml-character", 1, 4, id="escape-sequence"),
        pytest.param(b"a:\n\t- 1\n", "yaml-syntax", 2, 1, id="tab"),
        pytest.param(b"a: @x\n", "yaml-syntax", 1, 4, id="at-sign"),
        pytest.param(b"a: `x`\n", "yaml-syntax", 1, 4, id="backtick"),
        pytest.param(b"a: %x\n", "yaml-syntax", 1, 4, id="percent"),
        pytest.param(b"a: [1, 2\n", "yaml-syntax", 2, 1, id="open-bracket"),
        pytest.param(b"a: 'x\n", "yaml-syntax", 2, 1, id="open-quote"),
        pytest.param(b"a: " + b"[" * 40 + b"]" * 40, "yaml-depth", 1, 35, id="forty-levels"),
        pytest.param(BOMB.encode(), "yaml-alias", 6, 16, id="alias-bomb"),
    ],
)
def test_what_is_no_single_document_is_refused_with_its_place(reader, data, code, line, column):
    finding = refusal(data, reader)
    assert (finding.code, finding.line, finding.column) == (code, line, column)


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        pytest.param(b"a:\n\t- 1\n", "indent with spaces, not with tabs", id="tab"),
        pytest.param(
            "a:\n  - b: 1\n  \xa0 c: 2\n".encode(), "indent with plain spaces: this one is a no-break space", id="nbsp"
        ),
        pytest.param(b"a: @x\n", "quote text that begins with @", id="at-sign"),
    ],
)
def test_the_usual_slips_have_their_own_hint(data, hint):
    assert refusal(data).hint == hint


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "line",
    [
        "key: @hunter2",
        "key: 'hunter2",
        "key: [hunter2",
        "*hunter2 : [",
        "!hunter2!x y: [",
        "%hunter2 x",
        "&hunter2 &hunter2 x: [",
        "key: hunter2: hunter2",
        'key: "\\hunter2"',
    ],
)
def test_a_syntax_error_quotes_nothing_of_the_file(reader, line):
    finding = refusal(f"env:\n  {line}\n".encode(), reader)
    assert "hunter2" not in f"{finding.message} {finding.hint}"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("!!python/object/apply:os.system [x]", "yaml-tag", id="tag-of-a-constructor"),
        pytest.param("!!str 1", "yaml-tag", id="tag-of-the-core"),
        pytest.param("! 1", "yaml-tag", id="bare-tag"),
        pytest.param("*nobody", "yaml-alias", id="alias-of-nothing"),
        pytest.param("&a [*a]", "yaml-alias", id="list-in-itself"),
        pytest.param('"\\0"', "yaml-character", id="escaped-nul"),
    ],
)
def test_what_yaml_allows_and_a_state_file_does_not_is_marked_in_the_tree(reader, text, code):
    ((_, node),) = parse_document(f"k: {text}\n".encode(), reader).pairs
    node = node.nodes[0] if isinstance(node, Items) else node
    assert isinstance(node, Broken)
    assert node.code == code


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", ["{{ port }}: 1", "[a]: 1", "? {a: b}\n: 1", "!!str a: 1"])
def test_a_key_that_is_no_plain_word_is_marked_in_the_tree(reader, text):
    ((key, _),) = parse_document(f"{text}\n".encode(), reader).pairs
    assert isinstance(key, Broken)


def test_half_of_a_surrogate_pair_is_refused_by_either_parser():
    data = b'k: "\\ud800"\n'
    assert refusal(data, yaml.CSafeLoader).code == "yaml-syntax"
    ((_, node),) = parse_document(data, yaml.SafeLoader).pairs
    assert isinstance(node, Broken)


def test_an_alias_stands_for_what_its_anchor_names():
    ((_, first), (_, second)) = parse_document(b"a: &x {k: v}\nb: *x\n").pairs
    assert second is first


def test_an_alias_is_charged_all_that_it_repeats_and_a_few_are_allowed():
    block = "a: &x [" + ", ".join(["word"] * 1000) + "]\n"  # a weight of 8 + 1000 x 12
    assert parse_document((block + "b: [" + ", ".join(["*x"] * 166) + "]\n").encode())
    assert refusal((block + "b: [" + ", ".join(["*x"] * 167) + "]\n").encode()).code == "yaml-alias"


@pytest.mark.parametrize(
    ("levels", "code"), [pytest.param(15, None, id="to-the-bound"), pytest.param(16, "yaml-depth", id="beyond-it")]
)
def test_aliases_nest_no_deeper_than_what_is_written_out(levels, code):
    # The mapping is one level, x0 two more, and each further line two on top of the line before.
    lines = ["x0: &x0 [[]]", *(f"x{n}: &x{n} [[*x{n - 1}]]" for n in range(1, levels))]
    text = "\n".join(lines).encode()
    if code is None:
        assert len(parse_document(text).pairs) == 15
    else:
        assert refusal(text).code == code


def test_an_alias_bomb_is_refused_in_well_under_a_second():
    begun = time.process_time()
    refusal(BOMB.encode())
    assert time.process_time() - begun < 0.5


def test_five_thousand_brackets_are_refused_by_either_parser():
    for reader in (yaml.CSafeLoader, yaml.SafeLoader):
        assert refusal(b"[" * 5000, reader).code in ("yaml-syntax", "yaml-depth")


@pytest.mark.parametrize("reader", READERS)
@given(
    data=st.one_of(st.binary(), st.text().map(str.encode), st.text("ab:-[]{}&*!|>'\"%@#\n \t?,\\xU0").map(str.encode))
)
def test_any_bytes_give_a_tree_or_a_refusal(reader, data):
    try:
        found = parse_document(data, reader)
    except UnreadableError as error:
        found = error.finding
    assert min(found.line, found.column) >= 1


@given(text=st.text("ab1:-[]{}&*'\"#\n ,"))
def test_both_parsers_give_the_same_tree_where_both_give_one(text):
    try:
        expected = parse_document(text.encode(), yaml.CSafeLoader)
    except UnreadableError:
        return  # libyaml is the stricter one: it refuses `{a:}`
    assert parse_document(text.encode(), yaml.SafeLoader) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a:}", "cannot read the YAML: found unexpected ':' while scanning a plain scalar"),
        (
            "a: [b\nc: d",
            "cannot read the YAML: did not find expected ',' or ']' while parsing a flow sequence begun at line 1",
        ),
    ],
)
def test_a_syntax_error_says_what_the_parser_says(text, message):
    assert refusal(text.encode(), yaml.CSafeLoader).message == message
