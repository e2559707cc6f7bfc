"""`llmgw doctor`: the exit code, the streams, and that it only looks."""

from __future__ import annotations

import json

import pytest

from llmgw_reconcile.cli.main import main
from tests.fakes.nvidia_smi import h100, install_nvidia_smi


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A node of folders, reached through the environment alone."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("LLMGW_SYSFS_ROOT", str(tmp_path / "sys"))
    monkeypatch.setenv("LLMGW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def checks_of(capsys) -> dict[str, dict]:
    document = json.loads(capsys.readouterr().out)
    return {check["name"]: check for check in document["checks"]}


def test_every_side_of_the_node_is_looked_at(place, capsys) -> None:
    install_nvidia_smi(place / "bin", {"gpus": [h100(0), h100(1)], "cuda": "12.9"})
    assert main(["doctor", "-o", "json"]) == 0
    checks = checks_of(capsys)
    assert list(checks) == ["gpus", "engines", "limits", "fabric", "running", "records"]
    assert checks["gpus"]["summary"] == "driver 570.86.15, CUDA 12.9, 2 x h100-80g"
    assert checks["running"]["summary"] == "0 engines"


def test_a_driver_that_does_not_answer_is_an_error_with_a_cure(place, capsys) -> None:
    install_nvidia_smi(place / "bin", {"replies": {"": {"text": "", "code": 9}}})
    assert main(["doctor", "-o", "json"]) == 1
    findings = checks_of(capsys)["gpus"]["findings"]
    assert [finding["code"] for finding in findings if finding["severity"] == "error"] == ["nvidia-smi-failed"]
    assert all(finding["hint"] for finding in findings)


def test_records_that_others_may_write_are_an_error(place, capsys) -> None:
    (place / "state").mkdir()
    (place / "state").chmod(0o777)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "\nbad   records  " in out
    assert "error[records-unreadable]" in out


def test_it_writes_nothing(place, capsys) -> None:
    main(["doctor"])
    assert not (place / "state").exists()


def test_colour_follows_the_flag(place, capsys) -> None:
    main(["doctor", "--color", "always"])
    assert "\x1b[32mok\x1b[0m" in capsys.readouterr().out
