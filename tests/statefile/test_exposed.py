import pytest

from tests.statefile.states import HEAD, diagnostics_of, with_field


def warnings_of(text):
    return [f"{d.severity} {d.where}: {d.message}" for d in diagnostics_of(text)]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        pytest.param("env: {HF_TOKEN: hunter2}", "6:21: models[0].env.HF_TOKEN", id="token"),
        pytest.param(
            "env: {AWS_SECRET_ACCESS_KEY: hunter2}", "6:34: models[0].env.AWS_SECRET_ACCESS_KEY", id="access-key"
        ),
        pytest.param("env: {openai_api_key: hunter2}", "6:27: models[0].env.openai_api_key", id="lower-case"),
        pytest.param("args: [--api-key, hunter2]", "6:23: models[0].args[1]", id="flag-and-value"),
        pytest.param("args: [--api-key=hunter2]", "6:12: models[0].args[0]", id="flag-with-value"),
        pytest.param("args: [--hf_token, hunter2]", "6:24: models[0].args[1]", id="underscore"),
    ],
)
def test_a_secret_in_the_file_is_warned_of_by_its_place_alone(line, place):
    assert warnings_of(with_field(line)) == [f"warning node.yaml:{place}: a secret is written into the file"]


@pytest.mark.parametrize(
    "line",
    [
        "env: {HF_TOKEN: {env: MY_TOKEN}}",
        "env: {HF_TOKEN: {file: /etc/llmgw/hf}}",
        'env: {HF_TOKEN: ""}',
        "env: {TOKENIZERS_PARALLELISM: false}",
        "env: {MAX_TOKENS: 512}",
        "args: [--max-num-batched-tokens, 8192]",
        "args: [--chat-template, {file: /etc/llmgw/x.jinja}]",
    ],
)
def test_references_and_harmless_names_are_not_warned_of(line):
    assert [warning for warning in warnings_of(with_field(line)) if "cannot read" not in warning] == []


def test_a_secret_in_the_defaults_is_warned_of_once():
    text = f"defaults: {{env: {{HF_TOKEN: hunter2}}}}\n{HEAD}  - {{name: b, model: acme/b, engine: vllm}}\n"
    assert warnings_of(text) == ["warning node.yaml:1:28: defaults.env.HF_TOKEN: a secret is written into the file"]
