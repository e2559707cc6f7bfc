"""`llmgw completion`, and what a shell gets from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from llmgw_reconcile.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_llmgw(shell: str, capsys) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "_LLMGW_COMPLETE=" + shell + "_complete" in out


def test_another_shell_is_a_usage_error(capsys) -> None:
    assert main(["completion", "tcsh"]) == 64


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_understands_the_script(shell: str, capsys) -> None:
    if not (program := shutil.which(shell)):
        pytest.skip(f"no {shell} here")
    main(["completion", shell])
    done = subprocess.run([program, "-n"], input=capsys.readouterr().out, capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stderr) == (0, "")


def completed(words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    asked = {"_LLMGW_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    probe = "import sys; from llmgw_reconcile.cli.main import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, env={**os.environ, **asked}, timeout=20
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_verbs_are_completed() -> None:
    assert completed("llmgw re") == ["restart"]
    assert completed("llmgw f") == ["fmt"]


def test_options_and_choices_of_a_verb_are_completed() -> None:
    assert completed("llmgw fmt --ch") == ["--check"]
    assert completed("llmgw completion z") == ["zsh"]
