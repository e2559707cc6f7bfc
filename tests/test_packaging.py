"""What is written about the package in several places is the same in all of them, and the wheel lacks nothing."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from llmgw_reconcile import __version__
from llmgw_reconcile.cli.main import VERBS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_one_version() -> None:
    assert PROJECT["project"]["version"] == __version__


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([str(Path(sys.executable).with_name("llmgw"))], id="console-script"),
        pytest.param([sys.executable, "-m", "llmgw_reconcile"], id="module"),
    ],
)
def test_both_ways_to_call_it_say_that_version(command: list[str]) -> None:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"llmgw {__version__}\n"


def test_the_wheel_carries_the_schemas_beside_the_code() -> None:
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"] == {
        "schemas": "llmgw_reconcile/schemas"
    }
    assert not (ROOT / "llmgw_reconcile" / "schemas").exists()  # it would hide the source


def test_run_time_dependencies_are_these_four() -> None:
    names = {requirement.partition(">")[0] for requirement in PROJECT["project"]["dependencies"]}
    assert names == {"click", "jsonschema", "pyyaml", "rich"}


def test_the_demo_extra_is_pinned_and_absent_where_there_is_no_binary() -> None:
    (requirement,) = PROJECT["project"]["optional-dependencies"]["demo"]
    assert "==" in requirement.partition(";")[0]
    assert "sys_platform == 'linux'" in requirement
    assert "platform_machine == 'x86_64'" in requirement


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_command_with_help(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "llmgw_reconcile", verb, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"Usage: llmgw {verb} ")


def test_only_files_of_the_tree_are_named_in_the_source_archive() -> None:
    listed = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in listed if not (ROOT / name).exists()] == []
