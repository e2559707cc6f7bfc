"""The mark of an engine that is about to stop counts exactly as long as whoever set it lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmgw_reconcile.host.draining import is_draining, mark_draining, unmark_draining
from llmgw_reconcile.host.proc import boot_id, identify
from llmgw_reconcile.host.state_dir import EngineDir


@pytest.fixture
def folder(tmp_path: Path) -> EngineDir:
    return EngineDir(str(tmp_path))


def test_an_engine_drains_from_its_mark_until_the_mark_is_taken_away(folder: EngineDir) -> None:
    assert not is_draining(folder)
    mark_draining(folder)
    assert is_draining(folder)
    unmark_draining(folder)
    unmark_draining(folder)
    assert not is_draining(folder)


def test_the_mark_of_a_process_that_was_killed_counts_no_more(folder: EngineDir) -> None:
    code = (
        "import os, signal, sys\n"
        "from llmgw_reconcile.host.draining import mark_draining\n"
        "from llmgw_reconcile.host.state_dir import EngineDir\n"
        "mark_draining(EngineDir(sys.argv[1]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, folder.path], check=False)
    assert os.path.exists(folder.file("draining.json"))
    assert not is_draining(folder)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"boot_id": "another"}, id="of an earlier boot"),
        pytest.param({"ticks": 1}, id="of an earlier process with this pid"),
        pytest.param({"format_version": 2}, id="of another version"),
        pytest.param({"pid": None}, id="damaged"),
    ],
)
def test_a_mark_that_proves_nothing_counts_for_nothing(folder: EngineDir, change: dict[str, object]) -> None:
    me = identify(os.getpid())
    assert me is not None
    mark = {"format_version": 1, "boot_id": boot_id(), **me._asdict()}
    path = Path(folder.file("draining.json"))
    path.touch(mode=0o600)
    path.write_text(json.dumps(mark))
    assert is_draining(folder)
    path.write_text(json.dumps(mark | change))
    assert not is_draining(folder)
