"""`llmgw diff` against the file that was applied last."""

from __future__ import annotations

import json
import os

import pytest

from llmgw_reconcile.cli.main import main
from llmgw_reconcile.host.clock import SystemClock
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.model.desired import DesiredState
from llmgw_reconcile.workflow.applied import record_applied
from llmgw_reconcile.workflow.host import Host

STATE = "version: 1\nmodels:\n  - {name: chat, model: org/m, engine: vllm, port: 8000}\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A node on which STATE was applied from node.yaml."""
    monkeypatch.setenv("LLMGW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.yaml").write_text(STATE)
    root = StateDir(str(tmp_path / "state"))
    root.create()
    host = Host("gpu-07", ("gpu-07",), root, os.environ, "/sys", SystemClock())
    record_applied(host, DesiredState("node.yaml", ()), STATE.encode(), "sha256:1")
    return tmp_path


def test_the_file_as_it_was_applied_has_no_differences(place, capsys) -> None:
    (place / "node.yaml").write_text(f"# a comment\n{STATE}")
    assert main(["diff", "node.yaml"]) == 0
    assert capsys.readouterr() == ("No differences: it asks for what was applied last.\n", "")


def test_what_was_edited_since_is_shown(place, capsys) -> None:
    (place / "node.yaml").write_text(STATE.replace("8000", "8001"))
    assert main(["diff", "node.yaml"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"From {place}/node.yaml, as it was applied last, to node.yaml\n")
    assert "  ~ chat\n      port  8000 => 8001  # forces replacement\n" in out


def test_as_json(place, capsys) -> None:
    (place / "node.yaml").write_text(STATE.replace("chat", "code"))
    assert main(["diff", "node.yaml", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["before"] == f"{place}/node.yaml"
    assert [(model["name"], model["difference"]) for model in document["models"]] == [
        ("code", "added"),
        ("chat", "removed"),
    ]


def test_before_the_first_apply_everything_is_new(place, capsys, monkeypatch) -> None:
    monkeypatch.setenv("LLMGW_STATE_DIR", str(place / "other"))
    assert main(["diff", "node.yaml"]) == 0
    assert "From nothing, since nothing was applied here yet, to node.yaml\n\n  + chat\n" in capsys.readouterr().out
    assert not (place / "other").exists()


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        pytest.param("state/applied/applied.json", 1, "cannot read what was applied last", id="the-record"),
        pytest.param("state/applied/state.yaml", 3, "cannot understand the file applied last", id="the-file"),
        pytest.param("node.yaml", 3, "node.yaml:1:9", id="the-new-file"),
    ],
)
def test_what_cannot_be_read_is_an_error(place, capsys, damage: str, code: int, words: str) -> None:
    (place / damage).write_text("models: }")
    assert main(["diff", "node.yaml"]) == code
    assert words in capsys.readouterr().err
