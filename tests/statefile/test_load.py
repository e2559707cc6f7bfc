import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.errors import Severity, StateFileError
from llmgw_reconcile.model.desired import DesiredState, FileArg
from llmgw_reconcile.statefile.load import load_state
from tests.statefile.states import HEAD, codes_of, diagnostics_of, errors_of, loaded, with_field


def test_a_good_file_becomes_a_state_with_its_name_and_digest():
    state = loaded(HEAD)
    assert state.source == "node.yaml"
    assert [model.name for model in state.models] == ["chat"]
    assert state.warnings == ()
    assert loaded("version: 1\nmodels: []\n").digest == (
        "sha256:3313f3dcf9e4b7512328653014d725eff25f328896fc1bbce094594ac22e1b25"
    )


def test_comments_quotes_and_the_order_of_keys_change_no_model():
    other = 'models:\n- engine: "vllm"\n  # which one\n  model: acme/tiny\n  name: chat\nversion: 1\n'
    ours, theirs = loaded(HEAD).models[0], loaded(other).models[0]
    assert ours._replace(where="", positions={}) == theirs._replace(where="", positions={})


def test_no_models_are_a_state_too():
    assert loaded("version: 1\nmodels: []\n").models == ()


@pytest.mark.parametrize("name", ["no", "off", "y", "null", "0x10", "1e3"])
def test_words_that_yaml_once_read_as_something_else_are_names(name):
    assert loaded(HEAD.replace("chat", name)).models[0].name == name


def test_errors_of_meaning_stand_among_those_of_form_by_line():
    text = HEAD + "    user: llm\n    port: 1\n  - name: chat\n"
    assert errors_of(text) == [
        "node.yaml:6:11: models[0].user: not supported yet",
        "node.yaml:7:11: models[0].port: found the integer 1, expected an integer from 1024 to 65535",
        "node.yaml:8:5: models[1].model: missing, expected a hub id or an absolute path",
        "node.yaml:8:5: models[1].engine: missing, expected one of vllm, sglang, llama-cpp",
        "node.yaml:8:11: models[1].name: the name of another model too, at node.yaml:3:11",
    ]


def test_warnings_alone_do_not_refuse_a_file():
    state = loaded(with_field("env: {HF_TOKEN: hunter2}"))
    assert [(warning.severity, warning.code) for warning in state.warnings] == [(Severity.WARNING, "literal-secret")]


def test_a_file_argument_is_known_by_its_content():
    text = with_field("args: [{file: a.jinja}, {file: /t/b.jinja}]")
    files = {"/etc/llmgw/a.jinja": b"hello", "/t/b.jinja": b"hello"}
    digest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    assert loaded(text, read_file=files.__getitem__).models[0].args == (
        FileArg("/etc/llmgw/a.jinja", digest),
        FileArg("/t/b.jinja", digest),
    )


def test_a_file_that_many_models_name_is_read_once():
    asked = []

    def read(path):
        asked.append(path)
        return b""

    entries = "".join(f"  - {{name: m{n}, args: [{{file: a}}]}}\n" for n in range(5))
    loaded(f"version: 1\ndefaults: {{model: acme/tiny, engine: vllm}}\nmodels:\n{entries}", read_file=read)
    assert asked == ["/etc/llmgw/a"]


def test_a_file_argument_that_cannot_be_read_is_a_warning_and_has_no_digest(tmp_path):
    state = loaded(with_field("args: [--chat-template, {file: gone.jinja}]"), base=str(tmp_path))
    assert state.models[0].args[1] == FileArg(f"{tmp_path}/gone.jinja", "")
    (warning,) = state.warnings
    assert (warning.severity, warning.where) == (Severity.WARNING, "node.yaml:6:29")
    assert warning.message == f"models[0].args[1]: cannot read {tmp_path}/gone.jinja"


def test_a_directory_and_a_pipe_in_place_of_a_file_argument_are_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    state = loaded(with_field("args: [{file: pipe}, {file: .}]"), base=str(tmp_path))
    assert [item.digest for item in state.models[0].args] == ["", ""]


def state_or_diagnostics(data):
    try:
        return load_state("node.yaml", data, base="/", read_file=lambda path: b"")
    except StateFileError as error:
        return error.diagnostics


@given(
    data=st.one_of(
        st.binary(), st.text().map(str.encode), st.text("ab1:-[]{}&*'\"#\n ,").map(lambda t: (HEAD + t).encode())
    )
)
def test_any_bytes_give_a_state_or_everything_that_is_wrong(data):
    outcome = state_or_diagnostics(data)
    if not isinstance(outcome, DesiredState):
        assert any(diagnostic.severity is Severity.ERROR for diagnostic in outcome)
        assert all(diagnostic.where.startswith("node.yaml:") for diagnostic in outcome)


LINES = [
    "  - name: b",
    "    port: 8000",
    "    env: {A: {file: /k}}",
    "    env: &e {A: null}",
    "    env: *e",
    "defaults:",
    "  port: 1",
]
LINES += [
    "    args: [{file: x}, 1.0]",
    "    gpus: {ids: [0, 1]}",
    "    model: /m",
    "    engine: sglang",
    "node: {ports: 1-2}",
    "    nodes: [a]",
]


@given(lines=st.lists(st.sampled_from(LINES), max_size=8))
def test_any_mixture_of_sound_lines_gives_a_state_or_everything_that_is_wrong(lines):
    outcome = state_or_diagnostics((HEAD + "".join(f"{line}\n" for line in lines)).encode())
    if isinstance(outcome, DesiredState):
        assert [model.name for model in outcome.models] == ["chat", *("b" for line in lines if "name: b" in line)]
    else:
        assert outcome


def many(count, padding=0):
    entry = (
        "  - name: m{n}\n    model: acme/tiny\n    engine: vllm\n    port: {port}\n    tensor_parallel_size: 2\n"
        "    env: {{PADDING: {padding}}}\n    args: [--enable-prefix-caching]\n"
    )
    return "version: 1\nmodels:\n" + "".join(
        entry.format(n=n, port=10000 + n, padding="x" * padding) for n in range(count)
    )


def test_five_megabytes_of_models_are_read_within_the_bound():
    text = many(500, padding=10_000)
    assert len(text) > 5_000_000
    begun = time.process_time()
    assert len(loaded(text).models) == 500
    assert time.process_time() - begun < 5


def test_a_megabyte_of_mistakes_is_told_within_the_bound():
    text = "version: 1\nmodels:\n" + "  - {nmae: Chat, enginee: vlm, prot: 0}\n" * 30_000
    begun = time.process_time()
    assert len(diagnostics_of(text)) == 501
    assert time.process_time() - begun < 5


def test_a_list_that_repeats_a_wrong_model_many_times_is_told_quickly():
    text = "version: 1\nmodels:\n  - &m {name: 1, port: x}\n" + "  - *m\n" * 20_000
    begun = time.process_time()
    assert "too-many-errors" in codes_of(text)
    assert time.process_time() - begun < 2


def test_loading_imports_nothing_that_a_plan_does_not_need():
    heavy = ["jsonschema", "rich", "difflib", "dataclasses", "pathlib", "subprocess", "asyncio", "importlib.metadata"]
    program = (
        "import sys\nfrom llmgw_reconcile.statefile.load import load_state\n"
        f"load_state('n', {HEAD.encode()!r}, base='/')\nprint([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
