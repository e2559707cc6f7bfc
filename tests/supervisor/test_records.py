"""What a supervisor publishes: whole, only when something changed, and in the end even after a full disk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.host.proc import boot_id, identify
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.process import Phase, ProcessId
from llmgw_reconcile.supervisor.records import Records, command_digest
from llmgw_reconcile.supervisor.wake import NEVER
from tests.fakes.disk import full_disk

LEADER = ProcessId(4711, 900)


@pytest.fixture
def folder(tmp_path: Path) -> EngineDir:
    return EngineDir(str(tmp_path))


@pytest.fixture
def records(folder: EngineDir) -> Records:
    return Records("chat@0", folder, "f00d")


def read(folder: EngineDir, name: str) -> Any:
    return json.loads(Path(folder.file(name)).read_text())


def me() -> dict[str, int]:
    mine = identify(os.getpid())
    assert mine is not None
    return mine._asdict()


def test_a_phase_names_engine_boot_supervisor_and_launch(records: Records, folder: EngineDir) -> None:
    records.publish_phase(Phase.LOADING, detail="/health answers 503", restarts=2)
    found = read(folder, "phase.json")
    assert found.pop("since").endswith("Z")
    assert found == {
        "format_version": 1,
        "engine": "chat@0",
        "boot_id": boot_id(),
        "supervisor": me(),
        "launch": "f00d",
        "phase": "loading",
        "detail": "/health answers 503",
        "restarts": 2,
        "ready_at": None,
        "load_seconds": None,
    }


def test_a_phase_that_did_not_change_is_not_written_again(records: Records, folder: EngineDir) -> None:
    records.publish_phase(Phase.READY, ready_at="2026-01-02T03:04:05Z")
    before = os.stat(folder.file("phase.json")).st_ino
    records.publish_phase(Phase.READY, ready_at="2026-01-02T03:04:05Z")
    assert os.stat(folder.file("phase.json")).st_ino == before
    records.publish_phase(Phase.READY, restarts=1, ready_at="2026-01-02T03:04:05Z")
    assert os.stat(folder.file("phase.json")).st_ino != before


def test_a_new_detail_does_not_begin_the_phase_anew(
    records: Records, folder: EngineDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llmgw_reconcile.supervisor import records as module

    times = iter(["T1", "T2", "T3"])
    monkeypatch.setattr(module, "utc_now", lambda: next(times))
    records.publish_phase(Phase.LOADING)
    records.publish_phase(Phase.LOADING, detail="half way")
    assert read(folder, "phase.json")["since"] == "T1"
    records.publish_phase(Phase.READY)
    assert read(folder, "phase.json")["since"] == "T2"


def test_the_pid_file_has_the_fields_of_the_contract(records: Records, folder: EngineDir) -> None:
    records.publish_pid(LEADER, (ProcessId(9, 2), ProcessId(8, 1)), was_ready=True)
    assert read(folder, "pid.json") == {
        "format_version": 1,
        "engine": "chat@0",
        "boot_id": boot_id(),
        "pid": 4711,
        "ticks": 900,
        "pgid": 4711,
        "sid": 4711,
        "uid": os.geteuid(),
        "cmdline_digest": None,
        "launch": "f00d",
        "supervisor": me(),
        "members": [[8, 1], [9, 2]],
        "was_ready": True,
    }


def test_a_command_line_is_recorded_as_a_fingerprint() -> None:
    digest = command_digest(os.getpid())
    assert digest is not None
    assert digest == command_digest(os.getpid())
    assert digest.startswith("blake2b:")
    assert len(digest) == len("blake2b:") + 64
    assert command_digest(5_000_000) is None


def test_a_forgotten_pid_file_is_gone_and_forgetting_twice_is_fine(records: Records, folder: EngineDir) -> None:
    records.publish_pid(LEADER)
    records.forget_pid()
    records.forget_pid()
    assert not os.path.exists(folder.file("pid.json"))


def history(records: Records, folder: EngineDir, *ends: tuple[str, bool]) -> list[str]:
    for name, was_ready in ends:
        records.record_exit({"cause": name, "was_ready": was_ready})
    return [entry["cause"] for entry in read(folder, "exits.json")["exits"]]


@pytest.mark.parametrize(
    ("ends", "kept"),
    [
        pytest.param(["a", "b", "c"], ["a", "b", "c"], id="a-few-are-all-kept"),
        pytest.param(["a", "b", "c", "d", "e", "f", "g"], ["a", "d", "e", "f", "g"], id="the-first-is-kept"),
        pytest.param(["a!", "b", "c", "d", "e", "f"], ["a!", "c", "d", "e", "f"], id="the-end-of-a-ready-run-is-kept"),
        pytest.param(
            ["a", "b!", "c", "d", "e", "f"], ["b!", "c", "d", "e", "f"], id="until-the-engine-was-ready-once-more"
        ),
        pytest.param(["a!", "b!", "c!", "d!", "e!", "f!"], ["b!", "c!", "d!", "e!", "f!"], id="all-ready-the-newest"),
    ],
)
def test_of_five_ends_the_first_since_it_was_ready_is_never_pushed_out(
    records: Records, folder: EngineDir, ends: list[str], kept: list[str]
) -> None:
    """`!`: that run was ready."""
    assert history(records, folder, *((end, end.endswith("!")) for end in ends)) == kept


@pytest.mark.parametrize("damaged", ["", "{", '{"exits": 1}', '{"exits": [1, "x"]}', "\0" * 64], ids=repr)
def test_a_damaged_history_is_begun_anew(records: Records, folder: EngineDir, damaged: str) -> None:
    Path(folder.file("exits.json")).write_text(damaged)
    Path(folder.file("exits.json")).chmod(0o600)
    assert history(records, folder, ("a", False)) == ["a"]


def test_what_a_full_disk_refused_is_written_when_there_is_room() -> None:
    with full_disk() as disk:
        folder = EngineDir(str(disk))
        records = Records("chat@0", folder, "f00d")
        records.publish_phase(Phase.STARTING)
        assert (records.trouble, records.settle(0.0)) == ("", NEVER)
        disk.fill()
        records.publish_phase(Phase.READY)
        records.publish_pid(LEADER)
        records.record_exit({"cause": "one"})
        records.record_exit({"cause": "two"})
        assert "No space left on device" in records.trouble
        assert read(folder, "phase.json")["phase"] == "starting"
        assert records.settle(100.0) == 105.0
        disk.clear()
        assert records.settle(104.0) == 105.0  # not every time that something else wakes it
        assert records.settle(105.0) == NEVER
        assert read(folder, "phase.json")["phase"] == "ready"
        assert read(folder, "pid.json")["pid"] == 4711
        assert [entry["cause"] for entry in read(folder, "exits.json")["exits"]] == ["one", "two"]


def test_a_pid_file_that_was_forgotten_is_not_owed_any_more() -> None:
    with full_disk() as disk:
        folder = EngineDir(str(disk))
        records = Records("chat@0", folder, "f00d")
        disk.fill()
        records.publish_pid(LEADER)
        records.forget_pid()
        disk.clear()
        assert records.settle(10.0) == NEVER
        assert not os.path.exists(folder.file("pid.json"))
