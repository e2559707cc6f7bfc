"""A command line from a page, without a shell."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.shell_words import shell_command
from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.model.desired import SecretRef


@pytest.mark.parametrize(
    ("text", "variables", "words"),
    [
        pytest.param("vllm serve org/m", {}, ["vllm", "serve", "org/m"], id="words"),
        pytest.param("$ vllm serve m  # starts it", {}, ["vllm", "serve", "m"], id="a-prompt-and-a-comment-go"),
        pytest.param("vllm serve m \\\n  --port 1", {}, ["vllm", "serve", "m", "--port", "1"], id="continued-lines"),
        pytest.param("A=1 B='x y' vllm serve m", {"A": "1", "B": "x y"}, ["vllm", "serve", "m"], id="variables-before"),
        pytest.param("env A=1 vllm serve m", {"A": "1"}, ["vllm", "serve", "m"], id="variables-by-env"),
        pytest.param(
            'x --json \'{"a": [1, "#b"]}\'', {}, ["x", "--json", '{"a": [1, "#b"]}'], id="quotes-keep-what-is-in-them"
        ),
        pytest.param("x --issue a#1", {}, ["x", "--issue", "a#1"], id="a-sharp-inside-of-a-word"),
        pytest.param("~/venv/bin/vllm serve m", {}, ["/home/me/venv/bin/vllm", "serve", "m"], id="home"),
        pytest.param("x $KEY", {}, ["x", SecretRef("env", "KEY")], id="a-variable-is-a-reference"),
        pytest.param("x --k=${KEY}", {}, ["x", "--k", SecretRef("env", "KEY")], id="also-behind-an-equals-sign"),
        pytest.param("T=$T x", {"T": SecretRef("env", "T")}, ["x"], id="also-as-the-value-of-another"),
    ],
)
def test_the_words_of_a_command(text: str, variables: dict, words: list) -> None:
    found = shell_command(text, home="/home/me")
    assert (found.variables, list(found.words)) == (variables, words)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("x | tee log", "`|` is for a shell", id="pipe"),
        pytest.param("x > log 2>&1", "`>` is for a shell", id="redirection"),
        pytest.param("x && y", "`&&` is for a shell", id="list"),
        pytest.param("x --key <your-key>", "`<` is for a shell", id="placeholder"),
        pytest.param("x `date`", "is for a shell", id="backticks"),
        pytest.param("x 'open", "no closing quotation", id="open-quote"),
        pytest.param("x --port $BASE_1", None, id="a-whole-variable-is-for-the-reader-to-judge"),
        pytest.param("x --path $HOME/m", "only your shell knows \\$HOME", id="a-variable-inside-of-a-word"),
    ],
)
def test_what_needs_a_shell_is_refused_by_name(text: str, what: str | None) -> None:
    if what is None:
        shell_command(text, home="/")
        return
    with pytest.raises(RefusedError, match=what):
        shell_command(text, home="/")
