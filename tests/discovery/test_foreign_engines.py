"""Engines that somebody else started are found by what the kernel shows of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from llmgw_reconcile.discovery.foreign_engines import find_foreign_engines
from llmgw_reconcile.engines.program import program_of

PROGRAM = """
import os, sys
{before}
print(os.getpid(), flush=True)
sys.stdin.read()
"""
CHILD = "if os.fork() == 0: os.setpgid(0, 0) if sys.argv[-1] == 'apart' else None"


@pytest.fixture
def engine(tmp_path):
    """Starts a program called vllm in a folder of its own, and ends it, and its child, by closing its input."""
    started = []

    def start(*arguments: str, before: str = "", **environ: str) -> subprocess.Popen:
        path = tmp_path / "vllm"
        path.write_text(f"#!{sys.executable}\n{PROGRAM.format(before=before)}")
        path.chmod(0o755)
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [path, *arguments], stdin=pipe, stdout=pipe, cwd=tmp_path, env={"PATH": "/usr/bin", **environ}
        )
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
        return process

    yield start
    for process in started:
        process.communicate()


def found_here(tmp_path, engine_of=lambda pid: None):
    engines = find_foreign_engines(lambda argv: program_of(argv) is not None, engine_of)
    return [one for one in engines if one.folder == str(tmp_path)]


def test_an_engine_is_found_with_all_that_its_start_was(tmp_path, engine) -> None:
    process = engine("serve", "org/m", "--port", "8000", HF_HOME="/data")
    (found,) = found_here(tmp_path)
    assert (found.pid, found.argv[1:]) == (process.pid, (f"{tmp_path}/vllm", "serve", "org/m", "--port", "8000"))
    assert dict(found.environ) == {"PATH": "/usr/bin", "HF_HOME": "/data"}
    assert found.family == {process.pid}


@pytest.mark.parametrize("where", ["beside", "apart"])
def test_a_child_that_still_looks_like_its_leader_is_no_engine(tmp_path, engine, where: str) -> None:
    process = engine("serve", "org/m", where, before=CHILD)
    process.stdout.readline()
    (found,) = found_here(tmp_path)
    assert found.pid == process.pid
    assert len(found.family) == 2


def test_what_is_ours_is_left_out(tmp_path, engine) -> None:
    process = engine("serve", "org/m")
    assert found_here(tmp_path, lambda pid: "chat@0" if pid == process.pid else None) == []


def test_another_verb_of_the_program_is_no_engine(tmp_path, engine) -> None:
    engine("bench", "serve")
    assert found_here(tmp_path) == []
