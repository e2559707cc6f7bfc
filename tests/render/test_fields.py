import subprocess

import pytest

from llmgw_reconcile.render.fields import Row, command_lines, row_lines, value_text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "(unset)"),
        (True, "true"),
        (0.9, "0.9"),
        (8192, "8192"),
        ("auto", "auto"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a\nb", '"a\\nb"'),
        ("sha256:0123456789abcdef", "sha256:0123456789ab"),
        ([], "[]"),
        (["--seed", "1"], "[--seed, 1]"),
        ({"file": "/etc/key"}, "{file: /etc/key}"),
    ],
)
def test_a_value_in_the_words_of_the_state_file(value, shown):
    assert value_text(value) == shown


@pytest.mark.parametrize(
    ("row", "width", "lines"),
    [
        pytest.param(Row("port", "8000"), None, ["  port  8000"], id="one-value"),
        pytest.param(Row("port", "8000", "8001"), None, ["  port  8000 => 8001"], id="two-values"),
        pytest.param(Row("port", "1", "2", "# why"), None, ["  port  1 => 2  # why"], id="a-remark-behind-them"),
        pytest.param(
            Row("port", "1", "2", "# why"), 20, ["  port  1 => 2", "    # why"], id="or-below-where-it-is-narrow"
        ),
        pytest.param(
            Row("model", "org/llama-3.1-8b", "org/llama-3.3-70b"),
            30,
            ["  model  org/llama-3.1-8b", "         => org/llama-3.3-70b"],
            id="the-new-value-below-the-old-one",
        ),
    ],
)
def test_a_row(row, width, lines):
    assert list(row_lines([row], width=width, indent=2)) == lines


def test_a_command_can_be_pasted_into_a_shell():
    words = ["/opt/my vllm", "serve", "--json", '{"a": 1}', "--stop", "it's $HOME", "--eager", "x" * 90, "--last"]
    text = "\n".join(command_lines(words, first="printf '%s\\0' ", width=60))
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == words


def test_a_flag_stays_with_its_value():
    lines = command_lines(["vllm", "serve", "--port", "8000", "--seed", "1"], first="$ ", width=26)
    assert lines == ["$ vllm serve --port 8000 \\", "    --seed 1"]
