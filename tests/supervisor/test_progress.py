"""Signs of life of an engine that loads, and what looks like one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmgw_reconcile.host.proc import identify
from llmgw_reconcile.model.process import ProcessId
from llmgw_reconcile.supervisor.log_bound import LogBound
from llmgw_reconcile.supervisor.progress import Progress, is_loading, look_at
from tests.fakes.procs import until

A, B, C = (ProcessId(number, 1) for number in (1, 2, 3))
BEFORE = Progress(100, 5_000_000, (A, B))
MIB = 1 << 20


@pytest.mark.parametrize(
    ("now", "told", "moved"),
    [
        pytest.param(BEFORE, b"", False, id="nothing"),
        pytest.param(BEFORE._replace(members=(A, B, C)), b"", True, id="a-process-came"),
        pytest.param(BEFORE._replace(members=(A,), read_bytes=0), b"", True, id="a-process-went"),
        pytest.param(BEFORE._replace(read_bytes=5_000_000 + MIB), b"", True, id="weights-were-read"),
        pytest.param(BEFORE._replace(read_bytes=5_000_000 + MIB - 1), b"", False, id="pipes-were-read"),
        pytest.param(BEFORE, b"Loading shards: 3 of 9\n", True, id="a-line"),
        pytest.param(BEFORE, b"\r10%\r", True, id="a-progress-bar"),
        pytest.param(BEFORE, b'INFO: 127.0.0.1:1 - "GET /health HTTP/1.1" 503\n', False, id="our-own-question"),
        pytest.param(BEFORE, b'"GET /v1/models HTTP/1.1" 200 OK\n\n', False, id="our-other-question"),
        pytest.param(BEFORE, b'"GET /health HTTP/1.1" 503\nCapturing CUDA graphs\n', True, id="a-line-beside-it"),
    ],
)
def test_an_engine_moves_when_anything_but_our_questions_happens(now: Progress, told: bytes, moved: bool) -> None:
    assert now.has_moved_since(BEFORE, told) is moved


def test_what_a_process_and_its_children_read_is_counted(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"\0" * (3 * MIB))
    code = "import sys; open(sys.argv[1], 'rb').read(); print('ready', flush=True); sys.stdin.read()"
    script = f'{sys.executable} -ISc "{code}" {weights}'
    with subprocess.Popen(["sh", "-c", f"{script}; :"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()
        leader = identify(engine.pid)
        assert leader is not None
        progress = look_at(leader, 42)
        assert progress.log_bytes == 42
        assert progress.read_bytes >= 3 * MIB
        assert len(progress.members) == 2
        assert progress.members[0] == leader
        assert engine.stdin is not None
        engine.stdin.close()


def test_a_process_that_is_gone_has_read_nothing() -> None:
    assert look_at(ProcessId(5_000_000, 1), 0) == Progress(0, 0, (ProcessId(5_000_000, 1),))


@pytest.mark.parametrize(
    ("log", "members", "expected"),
    [
        pytest.param("INFO starting\n", (A,), False, id="nothing-of-the-model"),
        pytest.param("INFO starting\n", (A, B), False, id="one-helper"),
        pytest.param("INFO starting\n", (A, B, C), True, id="processes-that-hold-the-model"),
        pytest.param("(EngineCore pid=1) INFO [gpu.py:1] Starting to load model x\n", (A,), True, id="vllm"),
        pytest.param("[2026-01-02 03:04:05] Load weight begin. avail mem=79 GB\n", (A,), True, id="sglang"),
        pytest.param("0.00.016.218 I srv load_model: loading model 'x.gguf'\n", (A,), True, id="llama-server"),
    ],
)
def test_the_model_is_seen_in_the_log_or_by_the_processes(
    tmp_path: Path, log: str, members: tuple[ProcessId, ...], expected: bool
) -> None:
    path = tmp_path / "engine.log"
    path.write_text(log)
    bound = LogBound(str(path), fresh=False)
    assert is_loading(bound, Progress(0, 0, members)) is expected
    bound.close()


def test_this_process_can_be_looked_at() -> None:
    mine = until(lambda: identify(os.getpid()))
    assert look_at(mine, 0).read_bytes > 0
