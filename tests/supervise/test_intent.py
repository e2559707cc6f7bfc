"""What is about to be started is written first, and can be read back as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmgw_reconcile.discovery.records import EngineRecords, read_records
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.supervise.intent import Intent, recorded_intent, write_intent, write_spec

INTENT = Intent(
    "chat@0",
    {"model": "org/m", "engine": "vllm"},
    {"labels": {"team": "a"}},
    {"api_key": "0123"},
    {"argv": ["/bin/vllm", {"env": "TOKEN"}], "env": {"KEY": {"file": "/k"}}, "gpus": []},
)


@pytest.fixture
def folder(tmp_path: Path) -> EngineDir:
    (tmp_path / "chat@0").mkdir(mode=0o700)
    return EngineDir(str(tmp_path / "chat@0"))


def read(folder: EngineDir) -> EngineRecords:
    return read_records("chat@0", folder)


def test_an_intent_comes_back_as_it_was_written(folder: EngineDir) -> None:
    launch = write_intent(INTENT, folder)
    assert recorded_intent(read(folder)) == INTENT
    assert read(folder).launch_id == launch
    assert len(launch) == 16


def test_every_launch_has_an_id_of_its_own(folder: EngineDir) -> None:
    assert len({write_intent(INTENT, folder) for _ in range(20)}) == 20


def test_secrets_are_written_by_reference_only(folder: EngineDir) -> None:
    write_intent(INTENT, folder)
    document = json.loads(Path(folder.file("launch.json")).read_text())["document"]
    assert document["argv"][1] == {"env": "TOKEN"}
    assert document["env"] == {"KEY": {"file": "/k"}}


def test_a_hold_lasts_until_the_next_intent(folder: EngineDir) -> None:
    write_intent(INTENT, folder)
    assert not read(folder).is_held
    write_spec(INTENT, folder, held=True)
    assert read(folder).is_held
    assert recorded_intent(read(folder)) == INTENT
    write_intent(INTENT, folder)
    assert not read(folder).is_held


@pytest.mark.parametrize("name", ["spec.json", "launch.json"])
def test_half_an_intent_is_none(folder: EngineDir, name: str) -> None:
    write_intent(INTENT, folder)
    Path(folder.file(name)).unlink()
    assert recorded_intent(read(folder)) is None
