"""What `ps` shows of a supervisor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys; sys.path.insert(0, sys.argv[1])
from llmgw_reconcile.supervisor.title import set_title
set_title(sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
"""


def shown(title: str, padding: int) -> tuple[bytes, bytes]:
    argv = [sys.executable, "-ISc", CODE, str(Path(__file__).parents[2]), title, " " * padding]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = Path(f"/proc/{process.pid}/cmdline").read_bytes(), Path(f"/proc/{process.pid}/comm").read_bytes()
        assert process.stdin is not None
        process.stdin.close()
    return found


@pytest.mark.parametrize("title", ["llmgw: supervisor chat@0 GPU-1,GPU-2", "x"])
def test_the_title_replaces_the_command_line(title: str) -> None:
    line, name = shown(title, 500)
    assert line.rstrip(b"\0") == title.encode()
    assert name == b"llmgw-sup\n"


def test_a_title_that_is_too_long_is_cut() -> None:
    title = "llmgw: " + "GPU-x," * 1000
    line, _ = shown(title, 10)
    assert title.encode().startswith(line.rstrip(b"\0"))
    assert 100 < len(line.rstrip(b"\0")) < len(title) * 2
