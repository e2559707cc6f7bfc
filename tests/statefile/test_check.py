import pytest

from tests.statefile.states import HEAD, codes_of, diagnostics_of, errors_of, with_field


def only(text):
    (diagnostic,) = diagnostics_of(text)
    return diagnostic


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        pytest.param(
            "port: 70000",
            "node.yaml:6:11: models[0].port: found the integer 70000, expected an integer from 1024 to 65535",
            "",
            id="integer-out-of-range",
        ),
        pytest.param(
            'port: "8000"',
            "node.yaml:6:11: models[0].port: found the text '8000', expected an integer from 1024 to 65535",
            "write the number without quotes",
            id="quoted-number",
        ),
        pytest.param(
            "port: 08000",
            "node.yaml:6:11: models[0].port: found the text '08000', expected an integer from 1024 to 65535",
            "write plain decimal digits",
            id="leading-zero",
        ),
        pytest.param(
            "port: eight",
            "node.yaml:6:11: models[0].port: found the text 'eight', expected an integer from 1024 to 65535",
            "",
            id="word",
        ),
        pytest.param(
            "replicas: 2.0",
            "node.yaml:6:15: models[0].replicas: found the fraction 2.0, expected an integer from 0 to 256",
            "",
            id="fraction",
        ),
        pytest.param(
            "gpu_memory_utilization: 90",
            "node.yaml:6:29: models[0].gpu_memory_utilization: "
            "found the integer 90, expected a number above 0 and at most 1",
            "",
            id="percentage",
        ),
        pytest.param(
            "revision: true",
            "node.yaml:6:15: models[0].revision: "
            "found the boolean true, expected a branch, tag or commit such as main, 5f0b02c7",
            "quote it, if it is meant as text",
            id="boolean-for-text",
        ),
        pytest.param(
            "protect: yes",
            "node.yaml:6:14: models[0].protect: found the text 'yes', expected true or false",
            "write true or false",
            id="yes-for-true",
        ),
        pytest.param(
            "device: gpu",
            "node.yaml:6:13: models[0].device: found the text 'gpu', expected one of cuda, cpu",
            "did you mean cpu?",
            id="no-such-word",
        ),
        pytest.param(
            "tensor_paralel_size: 2",
            "node.yaml:6:5: models[0].tensor_paralel_size: unknown key",
            "did you mean tensor_parallel_size?",
            id="misspelt-key",
        ),
        pytest.param(
            "restart: {retries: 3}",
            "node.yaml:6:15: models[0].restart.retries: unknown key",
            "known here: policy, max_restarts, reset_after",
            id="unknown-key-among-few",
        ),
        pytest.param(
            "zzz: 3",
            "node.yaml:6:5: models[0].zzz: unknown key",
            "`llmgw schema state` lists what is known",
            id="unknown-key-among-many",
        ),
        pytest.param(
            "port:",
            "node.yaml:6:10: models[0].port: empty value",
            "write a value, or leave the key out",
            id="empty-number",
        ),
        pytest.param(
            "accept:",
            "node.yaml:6:12: models[0].accept: empty value",
            "write [] for an empty list, or a value, or leave the key out",
            id="empty-list",
        ),
        pytest.param(
            "env: {HF_HOME: }",
            "node.yaml:6:20: models[0].env.HF_HOME: empty value",
            'write "" for empty text',
            id="empty-variable",
        ),
        pytest.param(
            "stop_grace: 1 h",
            "node.yaml:6:17: models[0].stop_grace: found the text '1 h', expected a duration such as 90s, 10m, 1h30m",
            "",
            id="duration-in-words",
        ),
        pytest.param(
            "executable: ./vllm",
            "node.yaml:6:17: models[0].executable: found the text './vllm', "
            "expected an absolute path or the name of a command such as /opt/vllm/bin/vllm, llama-server",
            "write the absolute path, from / on",
            id="relative-path",
        ),
        pytest.param(
            "gpus: [0, 1]",
            "node.yaml:6:11: models[0].gpus: found a list, expected a mapping",
            "",
            id="list-for-mapping",
        ),
        pytest.param(
            "args: --enable-prefix-caching",
            "node.yaml:6:11: models[0].args: found the text, expected a list",
            "",
            id="one-string-of-arguments",
        ),
        pytest.param(
            "served_model_name: []",
            "node.yaml:6:24: models[0].served_model_name: "
            "found 0 items, expected at least 1: a list or a name without spaces such as llama-70b",
            "",
            id="empty-list-of-names",
        ),
        pytest.param(
            "accept: [does-not-fit, does-not-fit]",
            "node.yaml:6:28: models[0].accept[1]: given twice, first at column 14",
            "",
            id="item-twice",
        ),
        pytest.param(
            "moved: {}",
            "node.yaml:6:12: models[0].moved.from: missing, "
            "expected a name of at most 63 lower-case letters, digits and hyphens such as llama-70b",
            "",
            id="key-missing",
        ),
        pytest.param(
            "<<: {port: 8000}",
            "node.yaml:6:5: models[0].<<: merge keys are not supported",
            "use `defaults:` for what models share",
            id="merge-key",
        ),
        pytest.param(
            "{{ x }}: 1",
            "node.yaml:6:5: models[0]: a key cannot be a list or a mapping",
            "quote text that begins with { or [",
            id="unquoted-template",
        ),
        pytest.param(
            "model: acme/other",
            "node.yaml:6:5: models[0].model: key given twice, first at line 4",
            "remove one of them",
            id="key-twice",
        ),
        pytest.param(
            "quantization: !fp8 x",
            "node.yaml:6:19: models[0].quantization: tags are not allowed here",
            "remove the tag, or quote text with !",
            id="tag",
        ),
    ],
)
def test_a_wrong_field_is_named_with_place_path_finding_and_hint(line, message, hint):
    errors = [d for d in diagnostics_of(with_field(line)) if "not supported yet" not in d.message]
    assert [(f"{d.where}: {d.message}", d.hint) for d in errors] == [(message, hint)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("- a\n", "node.yaml:1:1: found a list, expected a mapping", id="list"),
        pytest.param("words\n", "node.yaml:1:1: found the text 'words', expected a mapping", id="text"),
        pytest.param("models: []\n", "node.yaml:1:1: version: missing, expected 1", id="no-version"),
        pytest.param("version: 1\n", "node.yaml:1:1: models: missing, expected a list", id="no-models"),
        pytest.param("version: 2\nmodels: []\n", "node.yaml:1:10: version: found the integer 2, expected 1", id="v2"),
        pytest.param("version: 1\nmodels:\n", "node.yaml:2:8: models: empty value", id="null-models"),
        pytest.param(
            "version: 1\nmodels: {}\n", "node.yaml:2:9: models: found a mapping, expected a list", id="mapping"
        ),
    ],
)
def test_a_wrong_document_is_named_at_its_place(text, message):
    assert errors_of(text) == [message]


def test_all_that_is_wrong_is_said_at_once_in_the_order_of_the_file():
    text = HEAD.replace("chat", "Chat") + "    port: 80\n    prot: 81\n    replicas: -1\nnodes: {}\n"
    assert [error.partition(": ")[0] for error in errors_of(text)] == [
        "node.yaml:3:11",
        "node.yaml:6:11",
        "node.yaml:7:5",
        "node.yaml:8:15",
        "node.yaml:9:1",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "env: {HF_TOKEN: {hunter2}}",
        "env: {HF_TOKEN: [hunter2]}",
        "env: {HF_TOKEN: {file: [hunter2]}}",
        "env: {HF_TOKEN: {flie: hunter2}}",
        "env: {HF_TOKEN: {env: hunter2-is-no-name}}",
        "env: {HF_TOKEN: {hunter2: 1, hunter2: 2}}",
        "env: {HF_TOKEN=hunter2: 1}",
        "env: {HF_TOKEN=hunter2}",
        "env: [HF_TOKEN=hunter2]",
        "env: HF_TOKEN=hunter2",
        "env: {HF_TOKEN: !hunter2 x}",
        "env: {HF_TOKEN: *hunter2}",
        "api_key: hunter2",
        "api_key: {value: hunter2}",
        "api_key: {hunter2: 1}",
        "api_kye: hunter2",
        "args: --api-key=hunter2",
        "args: [{--api-key: hunter2}]",
        "args: [{hunter2}]",
        "prefix: [[hunter2]]",
        "model: https://user:hunter2@hub.example/acme/tiny",
    ],
)
def test_no_error_shows_what_may_be_a_secret(line):
    diagnostics = diagnostics_of(with_field(line))
    assert diagnostics
    assert "hunter2" not in "\n".join(map(str, diagnostics))


def test_a_secret_in_place_of_a_reference_is_told_what_belongs_there():
    assert errors_of(with_field("api_key: hunter2")) == [
        "node.yaml:6:14: models[0].api_key: found the text, expected a mapping with env or file"
    ]


@pytest.mark.parametrize("word", ["null", "Null", "NULL", "~"])
def test_the_words_that_others_read_as_nothing_are_text_with_a_warning(word):
    text = with_field(f"labels: {{team: {word}}}")
    assert only(text).message == f"models[0].labels.team: {word} is taken as text"
    assert codes_of(text.replace(word, f"'{word}'")) == []


def test_after_five_hundred_errors_no_more_are_looked_for():
    diagnostics = diagnostics_of(HEAD + "".join(f"    x{number}: 1\n" for number in range(2000)))
    assert len(diagnostics) == 501
    assert diagnostics[-1].message == "500 errors; there may be more"


def test_an_anchor_may_be_used_where_its_value_fits():
    text = (
        with_field("args: &flags [--enable-prefix-caching]")
        + "  - name: b\n    model: acme/b\n    engine: vllm\n    args: *flags\n"
    )
    assert diagnostics_of(text) == ()
