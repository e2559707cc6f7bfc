"""Entries that llmgw writes: laid out, and read back as what they were made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.statefile.entry import commented, entry_lines, free_name, state_text
from llmgw_reconcile.statefile.layout import canonical_layout
from llmgw_reconcile.statefile.load import load_state, state_schema

CHAT = {"name": "chat", "model": "org/m", "engine": "vllm"}


def written(fields: dict) -> str:
    return "\n".join(entry_lines(fields))


def test_fields_stand_in_the_order_of_the_contract_with_their_remarks_above_them() -> None:
    fields = {"port": 8000, "engine": "vllm", "name": "chat", "model": "org/m"}
    assert entry_lines(fields, {"name": "of the whole", "port": "why\nso"}) == [
        "  # of the whole",
        "  - name: chat",
        "    model: org/m",
        "    engine: vllm",
        "    # why",
        "    # so",
        "    port: 8000",
    ]


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        pytest.param("model", "org/m:Q4_K_M", "model: org/m:Q4_K_M", id="a-colon-inside-of-a-word-is-plain"),
        pytest.param("revision", "5f0b02c7", "revision: 5f0b02c7", id="text-that-is-no-number-is-plain"),
        pytest.param("revision", "1234", 'revision: "1234"', id="text-that-looks-like-a-number-is-quoted"),
        pytest.param("quantization", "no", 'quantization: "no"', id="a-word-that-others-take-for-a-boolean-is-quoted"),
        pytest.param("host", "127.0.0.1", "host: 127.0.0.1", id="an-address-is-plain"),
        pytest.param("gpu_memory_utilization", 0.9, "gpu_memory_utilization: 0.9", id="a-fraction"),
        pytest.param("protect", True, "protect: true", id="a-boolean"),
        pytest.param("args", ["--seed", "1"], "args: [--seed, 1]", id="an-argument-is-as-it-is-written"),
        pytest.param("args", ['{"a": 1}'], "args: ['{\"a\": 1}']", id="json-in-single-quotes"),
        pytest.param("args", ["a\tb", "it's"], 'args: ["a\\x09b", "it\'s"]', id="what-cannot-be-seen-is-escaped"),
        pytest.param("args", ["http://x/"], 'args: ["http://x/"]', id="a-colon-in-a-flow-collection-is-quoted"),
        pytest.param("env", {"A": {"env": "B"}}, "env: {A: {env: B}}", id="one-variable-on-one-line"),
        pytest.param("env", {"A": "1", "B": ""}, 'env:\n      A: 1\n      B: ""', id="several-on-lines-of-their-own"),
    ],
)
def test_how_a_value_is_written(field: str, value: object, line: str) -> None:
    assert f"    {line}" in written({**CHAT, field: value})


def test_a_long_list_is_written_one_item_a_line() -> None:
    words = [f"--a-rather-long-flag-number-{number}" for number in range(4)]
    assert written({**CHAT, "args": words}).splitlines()[3:] == ["    args:", *(f"      - {word}" for word in words)]


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=30)
WORDS = st.one_of(TEXTS, st.sampled_from(["true", "~", "null", "- a", "a: b", "a #b", "1e3", "0x1", "[a", "&a", "*a"]))


@given(args=st.lists(WORDS, max_size=4), env=st.dictionaries(st.from_regex(r"[A-Z]{1,8}", fullmatch=True), WORDS))
def test_any_words_are_read_back_as_they_were(args: list[str], env: dict[str, str]) -> None:
    fields = {**CHAT, "args": args, "env": env}
    text = state_text((), {}, [entry_lines({name: value for name, value in fields.items() if value})])
    (model,) = load_state("-", text.encode(), base="/").models
    assert (list(model.args), dict(model.env)) == (args, env)


def test_a_file_with_settings_and_two_entries_is_laid_out_as_fmt_would() -> None:
    entries = [entry_lines(CHAT, {"model": "a remark"}), entry_lines({**CHAT, "name": "code", "port": 8001})]
    text = state_text(["A head.", "", "More."], {"name": "gpu-07"}, entries)
    assert text == (
        "# yaml-language-server: $schema=state.schema.json\n"
        "# A head.\n#\n# More.\n"
        "version: 1\n\nnode:\n  name: gpu-07\n\nmodels:\n"
        "  - name: chat\n    # a remark\n    model: org/m\n    engine: vllm\n\n"
        "  - name: code\n    model: org/m\n    engine: vllm\n    port: 8001\n"
    )
    assert canonical_layout(text.encode(), state_schema()) == text.encode()


def test_a_file_whose_entries_are_all_comments_has_no_models() -> None:
    text = state_text((), {}, [commented(entry_lines(CHAT), ["why not"])])
    assert text.splitlines()[3:] == [
        "models: []",
        "# why not",
        "# - name: chat",
        "#   model: org/m",
        "#   engine: vllm",
    ]
    assert load_state("-", text.encode(), base="/").models == ()
    assert canonical_layout(text.encode(), state_schema()) == text.encode()


@pytest.mark.parametrize(
    ("fields", "taken", "name"),
    [
        pytest.param({"model": "Qwen/Qwen3-32B"}, [], "qwen3-32b", id="after-the-model"),
        pytest.param({"model": "/srv/tiny.Q4.gguf"}, [], "tiny-q4", id="after-the-file"),
        pytest.param({"model": "m", "served_model_name": ["Chat_1", "b"]}, [], "chat-1", id="after-what-clients-say"),
        pytest.param({"model": "org/m"}, ["m", "m-2"], "m-3", id="with-a-number-where-it-is-taken"),
        pytest.param({"model": "/___"}, [], "model", id="where-nothing-is-left"),
        pytest.param({"model": "x" * 80}, [], "x" * 58, id="cut-short"),
    ],
)
def test_a_name_is_a_label_of_its_own(fields: dict, taken: list[str], name: str) -> None:
    assert free_name(fields, taken) == name
