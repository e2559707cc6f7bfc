"""What is looked for on this node before an engine is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from llmgw_reconcile.model.desired import EngineKind, SecretRef
from llmgw_reconcile.model.observed import ForeignProcess
from llmgw_reconcile.workflow.facts import find_executable, secret_digests, secret_refs, stranger_ports
from tests.fakes.placed import a_model


def program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("engine", list(EngineKind))
def test_a_program_is_found_on_the_path_of_the_caller(tmp_path: Path, engine: EngineKind) -> None:
    names = {EngineKind.VLLM: "vllm", EngineKind.SGLANG: "sglang", EngineKind.LLAMA_CPP: "llama-server"}
    path = program(tmp_path / "bin" / names[engine])
    environ = {"PATH": f"{tmp_path}/empty:{tmp_path}/bin"}
    assert find_executable(a_model(engine=engine), environ) == (path, "")


def test_the_first_folder_wins_and_what_cannot_be_run_does_not_count(tmp_path: Path) -> None:
    program(tmp_path / "a/vllm", mode=0o644)
    (tmp_path / "b/vllm").mkdir(parents=True)
    first = program(tmp_path / "c/vllm")
    program(tmp_path / "d/vllm")
    environ = {"PATH": ":".join(f"{tmp_path}/{name}" for name in "abcd")}
    assert find_executable(a_model(), environ) == (first, "")


def test_a_program_beside_the_interpreter_of_llmgw_is_found_without_a_path() -> None:
    here = os.path.basename(sys.executable)
    assert find_executable(a_model(executable=here), {}) == (os.path.join(os.path.dirname(sys.executable), here), "")


def test_an_empty_entry_of_the_path_is_not_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "engine-of-the-working-directory")
    monkeypatch.chdir(tmp_path)
    path, problem = find_executable(a_model(executable="engine-of-the-working-directory"), {"PATH": ":.:"})
    assert path is None
    assert problem.startswith("engine-of-the-working-directory is on none of these folders: ")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("gone", "No such file or directory", id="not-there"),
        pytest.param("folder", "not a file", id="a-folder"),
        pytest.param("plain", "not executable", id="not-executable"),
    ],
)
def test_why_a_path_is_no_program(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "folder").mkdir()
    program(tmp_path / "plain", mode=0o644)
    path = f"{tmp_path}/{name}"
    assert find_executable(a_model(executable=path), {}) == (None, f"{path}: {problem}")


def test_digests_tell_a_change_and_nothing_else() -> None:
    model = a_model(api_key=SecretRef("env", "KEY"), env={"HF_TOKEN": SecretRef("env", "TOKEN"), "LANG": "C"})
    assert secret_refs(model) == {"api_key": SecretRef("env", "KEY"), "env.HF_TOKEN": SecretRef("env", "TOKEN")}
    first, problems = secret_digests(model, b"k" * 32, {"KEY": "a", "TOKEN": "b"})
    assert problems == ()
    assert secret_digests(model, b"k" * 32, {"KEY": "a", "TOKEN": "b"})[0] == first
    other, _ = secret_digests(model, b"k" * 32, {"KEY": "a", "TOKEN": "c"})
    assert (other["api_key"], other["env.HF_TOKEN"]) == (first["api_key"], other["env.HF_TOKEN"])
    assert other["env.HF_TOKEN"] != first["env.HF_TOKEN"]
    assert secret_digests(model, b"l" * 32, {"KEY": "a", "TOKEN": "b"})[0]["api_key"] != first["api_key"]


def test_a_secret_that_cannot_be_read_has_no_digest_and_a_reason() -> None:
    model = a_model(api_key=SecretRef("env", "KEY"))
    assert secret_digests(model, b"k" * 32, {}) == ({"api_key": None}, ("api_key: the variable KEY is not set",))


def test_before_the_first_apply_there_is_nothing_to_compare_with() -> None:
    model = a_model(api_key=SecretRef("env", "KEY"))
    assert secret_digests(model, None, {"KEY": "a"}) == ({"api_key": ""}, ())


def test_the_first_stranger_on_a_port_is_named() -> None:
    first, second = ForeignProcess(1, "a", "x", "port 8000"), ForeignProcess(2, "a", "y", "port 8000")
    assert stranger_ports([(8000, first), (8000, second)]) == {8000: first}
