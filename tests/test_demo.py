"""The demo's model: the same file every time, private, whole, and good enough for a real llama-server."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmgw_reconcile.demo import main, model_bytes
from tests.fakes.procs import free_port, until

LLAMA_SERVER = shutil.which("llama-server-vulkan", path=str(Path(sys.executable).parent))


def test_the_model_is_the_same_file_on_every_run() -> None:
    again = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from llmgw_reconcile.demo import *; sys.stdout.buffer.write(model_bytes())",
        ],
        capture_output=True,
        check=True,
    )
    assert again.stdout == model_bytes()


def test_the_file_is_gguf_3_with_21_tensors_and_19_metadata_entries() -> None:
    assert struct.unpack("<4sIQQ", model_bytes()[:24]) == (b"GGUF", 3, 21, 19)


def test_the_folder_is_private_and_nothing_but_the_model_is_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "tiny.gguf"
    assert main([str(path)]) == 0
    assert [(p.name, p.stat().st_mode & 0o777) for p in path.parent.iterdir()] == [("tiny.gguf", 0o600)]
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.read_bytes() == model_bytes()
    assert capsys.readouterr().out == (
        f"wrote {path}: a llama of random weights, 365 KiB; next: llmgw apply states/demo.yaml\n"
    )


def test_writing_it_again_replaces_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tiny.gguf"
    assert main([str(path)]) == 0
    with path.open("rb") as reader:
        path.chmod(0o400)
        assert main([str(path)]) == 0
        assert reader.read() == model_bytes()  # who has the old file open still reads all of it
    assert path.stat().st_mode & 0o777 == 0o600


def a_link(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


def open_to_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def a_file(folder: Path) -> None:
    folder.write_text("")


@pytest.mark.parametrize("make", [a_link, open_to_others, a_file])
def test_a_folder_that_is_not_ours_alone_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None]
) -> None:
    folder = tmp_path / "folder"
    make(folder)
    assert main([str(folder / "tiny.gguf")]) == 1
    assert capsys.readouterr().err.startswith(f"llmgw: cannot use {folder}: ")
    assert not list(tmp_path.rglob("*.gguf*"))


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        pytest.param(["--help"], 0, id="help"),
        pytest.param(["a", "b"], 64, id="two-paths"),
        pytest.param(["--force"], 64, id="unknown-option"),
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], argv: list[str], code: int) -> None:
    assert main(argv) == code
    assert "usage: python -m llmgw_reconcile.demo [PATH]" in "".join(capsys.readouterr())


@pytest.fixture
def llama_server(tmp_path: Path) -> Iterator[str]:
    """The address of a real llama-server that serves the model on the CPU."""
    if LLAMA_SERVER is None:
        pytest.skip("no llama-server-vulkan beside the interpreter: install the extra `demo`")
    path, port = tmp_path / "model" / "tiny.gguf", free_port()
    assert main([str(path)]) == 0
    command = [LLAMA_SERVER, "-m", str(path), "--host", "127.0.0.1", "--port", str(port), "--alias", "tiny"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen([*command, "--device", "none"], stdout=log, stderr=log)
    try:
        until(lambda: _status(f"http://127.0.0.1:{port}/health") == 200, 30, (tmp_path / "log").read_text())
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        assert server.wait(10) == 0


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return int(reply.status)
    except OSError:
        return 0


@pytest.mark.real_engine
def test_a_real_llama_server_serves_it(llama_server: str) -> None:
    with urllib.request.urlopen(f"{llama_server}/v1/models", timeout=5) as reply:
        assert [row["id"] for row in json.load(reply)["data"]] == ["tiny"]
    question = {"messages": [{"role": "user", "content": "Hello, größer\n?"}], "max_tokens": 16, "seed": 1}
    request = urllib.request.Request(f"{llama_server}/v1/chat/completions", json.dumps(question).encode())
    with urllib.request.urlopen(request, timeout=30) as reply:
        answer = json.load(reply)
    assert answer["usage"]["completion_tokens"] == 16
    assert len(answer["choices"][0]["message"]["content"].split()) > 8  # words, not noise
