"""What `fmt` makes of a state file: the layout, the comments, and nothing else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw_reconcile.statefile.layout import canonical_layout, same_meaning
from llmgw_reconcile.statefile.load import load_state, state_schema


def laid_out(text: str) -> str:
    return canonical_layout(text.encode(), state_schema()).decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "models:\n- name: a\n  engine: vllm\n  model: org/a\nversion: 1\n",
            "version: 1\nmodels:\n  - name: a\n    model: org/a\n    engine: vllm\n",
            id="keys-in-the-order-of-the-contract-and-two-spaces-a-level",
        ),
        pytest.param(
            "version: 1\nmodels:\n    - name: a\n    - name: b\n\n\n\n    - name: c\n",
            "version: 1\nmodels:\n  - name: a\n\n  - name: b\n\n  - name: c\n",
            id="one-blank-line-between-models",
        ),
        pytest.param(
            "version: 1\n\n\nmodels:\n\n  - name: a\n    model: m\n\n\n    engine: vllm\n",
            "version: 1\n\nmodels:\n  - name: a\n    model: m\n\n    engine: vllm\n",
            id="a-blank-line-elsewhere-stays-one-and-none-begins-a-block",
        ),
        pytest.param(
            "version: 1\nmodels:\n  - name: a\n    gpus: { ids: [1 ,0],class:  h100-80g }\n    args: [ --x,'y z' ]\n",
            "version: 1\nmodels:\n  - name: a\n    gpus: {class: h100-80g, ids: [1, 0]}\n    args: [--x, 'y z']\n",
            id="flow-collections-stay-flow-with-even-blanks-and-the-order-of-keys",
        ),
        pytest.param(
            "version: 1\nmodels:\n  - name: a\n    env: {B: 1, A: 2}\n    labels:\n      z: 1\n      b: 2\n",
            "version: 1\nmodels:\n  - name: a\n    env: {B: 1, A: 2}\n    labels:\n      z: 1\n      b: 2\n",
            id="free-keys-keep-their-order",
        ),
        pytest.param(
            "version: 1\nmodels:\n  - args:\n    - |\n      {\n        x\n\n      }\n    - >-\n      a\n      b\n",
            "version: 1\nmodels:\n  - args:\n      - |\n        {\n          x\n\n        }\n"
            "      - >-\n        a\n        b\n",
            id="block-scalars-move-along",
        ),
        pytest.param(
            "version: 1\nmodels:\n- name: a\n  args: [--x,   # one\n    1]   # two\n",
            "version: 1\nmodels:\n  - name: a\n    args: [--x,   # one\n      1]   # two\n",
            id="a-flow-collection-of-several-lines-stays-as-it-is-written",
        ),
        pytest.param(
            "version: 1\nmodels:\n  - name: a\n    ? port\n    : 8000\n    served_model_name:\n      chat\n",
            "version: 1\nmodels:\n  - name: a\n    served_model_name: chat\n    port: 8000\n",
            id="explicit-keys-and-values-on-the-next-line-become-plain",
        ),
        pytest.param(
            "---\nversion: 1\r\nmodels: []\r\n...\n",
            "version: 1\nmodels: []\n",
            id="document-marks-and-carriage-returns-go",
        ),
        pytest.param(
            "models: [{name: b, model: &m org/m, engine: vllm}]\nversion: 1\ndefaults:\n  env: &e\n   A: 1\n",
            "version: 1\ndefaults:\n  env: &e\n    A: 1\nmodels: [{name: b, model: &m org/m, engine: vllm}]\n",
            id="anchors-stay-with-their-values",
        ),
        pytest.param(
            "models:\n- model: &m org/m\n  name: a\n- name: b\n  model: *m\nversion: 1\n",
            "models:\n  - model: &m org/m\n    name: a\n\n  - name: b\n    model: *m\nversion: 1\n",
            id="with-aliases-the-order-stays",
        ),
    ],
)
def test_the_layout(text: str, expected: str) -> None:
    assert laid_out(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "# head\n\n# of models\nmodels: []\n# of version\nversion: 1  # one\n# end\n",
            "# head\n\n# of models\n# of version\nversion: 1  # one\nmodels: []\n# end\n",
            id="what-stands-above-the-first-key-is-the-head-of-the-file",
        ),
        pytest.param(
            "version: 1\nmodels:\n- name: a\n  # of port\n  port: 8000\n  # of model\n  model: m\n",
            "version: 1\nmodels:\n  - name: a\n    # of model\n    model: m\n    # of port\n    port: 8000\n",
            id="a-comment-goes-with-the-key-below-it",
        ),
        pytest.param(
            "version: 1\nmodels:\n# of a\n- # more of a\n  port: 1\n  # of the name\n  name: a\n",
            "version: 1\nmodels:\n  # of a\n  # more of a\n  # of the name\n  - name: a\n    port: 1\n",
            id="what-stands-above-an-item-stays-above-it",
        ),
        pytest.param(
            "version: 1\nmodels:\n- name: a\n  model: m\n  # port: 8000\n  # dtype: auto\n"
            "# of b\n- name: b\n  model: m\n",
            "version: 1\nmodels:\n  - name: a\n    model: m\n    # port: 8000\n    # dtype: auto\n\n"
            "  # of b\n  - name: b\n    model: m\n",
            id="fields-that-were-set-aside-stay-with-their-model",
        ),
        pytest.param(
            "version: 1\nmodels:\n  - name: a      # one\n    model: org/m  # two\n    port: 1 # three\n",
            "version: 1\nmodels:\n  - name: a      # one\n    model: org/m  # two\n    port: 1  # three\n",
            id="comments-behind-values-stay-in-their-column-or-two-blanks-off",
        ),
        pytest.param(
            "version: 1\nmodels:\n- env:   # of env\n    # of A\n    A: '# none'   # of A too\n    B: x#y\n",
            "version: 1\nmodels:\n  - env:   # of env\n      # of A\n      A: '# none'   # of A too\n      B: x#y\n",
            id="a-sharp-inside-of-a-value-is-no-comment",
        ),
        pytest.param(
            "version: 1\nmodels:\n- name: a\n  port:   # why\n    8000   # that\n",
            "version: 1\nmodels:\n  - name: a\n    port: 8000  # why  # that\n",
            id="two-comments-for-one-line",
        ),
    ],
)
def test_comments_stay_with_what_they_speak_of(text: str, expected: str) -> None:
    assert laid_out(text) == expected


def test_a_file_of_one_flow_collection_is_left_alone() -> None:
    text = '{"version": 1,\n "models": []}\n'
    assert laid_out(text) == text


def test_utf_16_becomes_utf_8() -> None:
    text = "version: 1\nmodels: []  # café\n"
    assert canonical_layout(text.encode("utf-16"), state_schema()) == text.encode()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("a: 1\nb: [x]\n", "b: [x]\na: 1\n", True, id="the-order-of-keys-says-nothing"),
        pytest.param("a: [x, y]\n", "a: [y, x]\n", False, id="the-order-of-items-does"),
        pytest.param("a: 1\n", 'a: "1"\n', False, id="so-do-quotation-marks"),
        pytest.param("a: 1.0\n", "a: 1.00\n", False, id="and-how-a-number-is-written"),
        pytest.param("a: &x [1]\nb: *x\n", "a: [1]\nb: [1]\n", True, id="an-alias-is-what-it-stands-for"),
    ],
)
def test_what_is_the_same_meaning(one: str, other: str, same: bool) -> None:
    assert same_meaning(one.encode(), other.encode()) is same


FIELDS = {
    "name": ["{name}"],
    "model": ["org/m", "'org/m'", "&anchor{name} org/m"],
    "engine": ["vllm"],
    "port": ["{port}", "\n{more}{port}"],
    "env": [
        "{{A: 1,  B: 'x # y'}}",
        "\n{more}A: 1   # eol\n{more}# own\n{more}B: 2",
        "{{A: {{file: x}},\n{more}B: 2}}",
    ],
    "args": [
        "[--x, 1]",
        "\n{more}- --x\n{more}- >\n{more}  folded\n\n{more}  text",
        "[\n{more}  --y # inside\n{more}]",
    ],
    "readiness": ["{{silence_timeout: 1m,start_timeout: 1h}}", "\n{more}silence_timeout: 1m\n{more}start_timeout: 1h"],
}
COMMENTS = ["", "", "", "# one", "# two\n{pad}# lines", "\n", "\n\n# after blanks", "# before a blank\n"]


def random_state(seed: int) -> str:
    """A valid state file in some odd layout."""
    pick = random.Random(seed)
    step = pick.choice([1, 2, 3, 4])
    dash = " " * pick.choice([0, 2, 4])
    pad = f"{dash}{' ' * pick.choice([2, 2, 4])}"
    sections = ["version: 1\n"]
    models = "models:\n"
    for number in range(pick.randint(1, 3)):
        fields = [field for field in FIELDS if field in ("name", "model", "engine") or pick.random() < 0.6]
        pick.shuffle(fields)
        for place, field in enumerate(fields):
            words = {"name": f"m{number}", "port": 8000 + number, "more": f"{pad}{' ' * step}", "pad": pad}
            value = pick.choice(FIELDS[field]).format(**words)
            comment = pick.choice(COMMENTS).format(**words)
            head = f"{dash}-{' ' * (len(pad) - len(dash) - 1)}" if place == 0 else pad
            above = f"{pad if place else dash}{comment}\n" if comment else ""
            behind = "   # behind" if "\n" not in value and pick.random() < 0.3 else ""
            models += f"{above}{head}{field}:{'' if value.startswith(chr(10)) else ' '}{value}{behind}\n"
    sections.append(models)
    pick.shuffle(sections)
    return pick.choice(["", "# head\n", "# head\n\n"]) + "".join(sections) + pick.choice(["", "# end\n", "\n\n"])


@settings(max_examples=400, deadline=None)
@given(st.integers(min_value=0, max_value=10**9))
def test_any_layout_keeps_meaning_and_comments_and_is_laid_out_once_and_for_all(seed: int) -> None:
    text = random_state(seed)
    data = text.encode()
    before = load_state("s", data, base="/", read_file=lambda _: b"")
    done = canonical_layout(data, state_schema())
    assert same_meaning(data, done)
    after = load_state("s", done, base="/", read_file=lambda _: b"")
    assert [model._replace(where="", positions={}) for model in after.models] == [
        model._replace(where="", positions={}) for model in before.models
    ]
    for comment in (
        "# one",
        "# two",
        "# lines",
        "# after blanks",
        "# behind",
        "# own",
        "# eol",
        "# inside",
        "# head",
        "# end",
    ):
        assert done.decode().count(comment) == text.count(comment), comment
    assert canonical_layout(done, state_schema()) == done
