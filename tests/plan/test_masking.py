import pytest

from llmgw_reconcile.model.desired import FileArg, SecretRef
from llmgw_reconcile.model.secret_names import names_a_secret
from llmgw_reconcile.plan.masking import shown_command, shown_environment


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        pytest.param(("vllm", "serve", "m"), ("vllm", "serve", "m"), id="plain-words-stay"),
        pytest.param(("s", "--key", SecretRef("file", "/k")), ("s", "--key", "(secret)"), id="a-reference-is-masked"),
        pytest.param(
            ("s", "--chat-template", FileArg("/t.jinja", "sha256:aa")),
            ("s", "--chat-template", "/t.jinja"),
            id="a-file-shows-its-path",
        ),
        pytest.param(
            ("s", "--api-key", "canary", "canary2", "--port", "1"),
            ("s", "--api-key", "(secret)", "(secret)", "--port", "1"),
            id="every-value-behind-a-secret-flag-is-masked",
        ),
        pytest.param(("s", "--hf_token=canary"), ("s", "--hf_token=(secret)"), id="also-behind-an-equals-sign"),
        pytest.param(
            ("s", "--otlp", "https://me:canary@host/x"), ("s", "--otlp", "https://(secret)@host/x"), id="userinfo"
        ),
        pytest.param(
            ("s", "--otlp=https://me:canary@host"), ("s", "--otlp=https://(secret)@host"), id="userinfo-behind-equals"
        ),
    ],
)
def test_a_command_line_for_people(argv, shown):
    assert shown_command(argv) == shown


def test_an_environment_for_people():
    environment = [
        ("HF_TOKEN", SecretRef("env", "MY_TOKEN")),
        ("LANG", "C.UTF-8"),
        ("MY_PASSWORD", "canary"),
        ("NO_ROOT", SecretRef("file", "/x")),
    ]
    assert shown_environment(environment) == (
        ("HF_TOKEN", "(secret)"),
        ("LANG", "C.UTF-8"),
        ("MY_PASSWORD", "(secret)"),
        ("NO_ROOT", "(secret)"),
    )


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "OPENAI_APIKEY", "--admin-api-key", "--ssl-keyfile-password"],
)
def test_these_names_carry_a_secret(name):
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name",
    ["--max-num-batched-tokens", "TOKENIZERS_PARALLELISM", "--ssl-keyfile", "HF_TOKEN_PATH", "AWS_ACCESS_KEY_ID", ""],
)
def test_these_names_carry_none(name):
    assert not names_a_secret(name)
