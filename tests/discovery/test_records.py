"""Records are believed when they are whole, ours alone and of this version; never half, and never through a link."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.discovery.records import EngineRecords, last_exit_of, read_records
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.observed import LastExit, Phase, ProcessId

GOOD: dict[str, dict[str, Any]] = {
    "spec.json": {"document": {"model": "m"}, "bookkeeping": {"labels": {}}, "secret_digests": {}},
    "launch.json": {"id": "0123456789abcdef", "document": {"argv": ["/bin/vllm"], "env": {}}},
    "pid.json": {
        "boot_id": "b",
        "pid": 4711,
        "ticks": 99,
        "uid": 0,
        "launch": "0123456789abcdef",
        "members": [[4711, 99], [4712, 100]],
        "was_ready": True,
    },
    "phase.json": {
        "boot_id": "b",
        "supervisor": {"pid": 4710, "ticks": 98},
        "phase": "ready",
        "since": "2026-01-01T00:00:00Z",
        "detail": "",
        "restarts": 2,
        "launch": "0123456789abcdef",
    },
    "exits.json": {"exits": [{"code": 7, "signal": None, "at": "2026-01-01T00:00:00Z", "cause": "c", "tail": "a\nb"}]},
}


class Folder:
    def __init__(self, root: Path) -> None:
        self.path = root / "chat@0"
        self.path.mkdir(mode=0o700)
        for name, fields in GOOD.items():
            self.write(name, json.dumps({"format_version": 1} | fields))

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o600)
        return path

    def read(self) -> EngineRecords:
        return read_records("chat@0", EngineDir(str(self.path)))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_whole_records_become_values(folder: Folder) -> None:
    records = folder.read()
    assert records.problems == ()
    assert records.launch_id == "0123456789abcdef"
    assert records.pid is not None
    assert records.pid.leader == ProcessId(4711, 99)
    assert records.pid.family.recorded == {ProcessId(4711, 99), ProcessId(4712, 100)}
    assert records.phase is not None
    assert (records.phase.phase, records.phase.supervisor, records.phase.restarts) == (
        Phase.READY,
        ProcessId(4710, 98),
        2,
    )
    assert last_exit_of(records) == (LastExit(7, None, "2026-01-01T00:00:00Z", "c"), ("a", "b"))
    assert not records.is_held


def test_an_empty_folder_and_none_have_no_records_and_no_problems(tmp_path: Path) -> None:
    (tmp_path / "chat@0").mkdir(mode=0o700)
    for name in ("chat@0", "nowhere@0"):
        records = read_records(name, EngineDir(str(tmp_path / name)))
        assert records == EngineRecords(name)
        assert last_exit_of(records) == (LastExit(), ())


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 4096, id="all-NUL"),
        pytest.param(b'{"format_version": 1, "pid', id="half"),
        pytest.param(b"\xff\xfe\x00", id="binary"),
        pytest.param(b"[1]", id="a-list"),
        pytest.param(b'{"format_version": 1}', id="without-its-fields"),
        pytest.param(b'{"format_version": 99}', id="of-a-later-version"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)
def test_a_damaged_record_is_set_aside_with_a_warning_and_the_others_are_believed(
    folder: Folder, name: str, text: bytes
) -> None:
    path = folder.write(name, text)
    records = folder.read()
    (problem,) = records.problems
    assert (problem.code, problem.where, str(problem.severity)) == ("record-set-aside", str(path), "warning")
    field = name.removesuffix(".json")
    assert getattr(records, field) in (None, ())
    others = {"spec", "launch", "pid", "phase", "exits"} - {field}
    assert all(getattr(records, other) not in (None, ()) for other in others)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"pid": 1}, id="pid-1"),
        pytest.param({"pid": 0}, id="pid-0"),
        pytest.param({"pid": -5}, id="negative"),
        pytest.param({"pid": "many"}, id="text"),
        pytest.param({"members": [[4711]]}, id="half-a-member"),
    ],
)
def test_a_pid_file_that_names_nobodys_process_is_not_believed(folder: Folder, fields: dict[str, Any]) -> None:
    folder.write("pid.json", json.dumps({"format_version": 1} | GOOD["pid.json"] | fields))
    records = folder.read()
    assert records.pid is None
    assert records.pid_is_damaged


def test_a_link_a_hard_link_a_fifo_and_a_file_that_others_may_write_to_are_not_believed(
    folder: Folder, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    for name in ("spec.json", "launch.json"):
        (folder.path / name).rename(elsewhere)
        (folder.path / name).symlink_to(elsewhere) if name == "spec.json" else os.link(elsewhere, folder.path / name)
    (folder.path / "pid.json").unlink()
    os.mkfifo(folder.path / "pid.json", 0o600)
    (folder.path / "phase.json").chmod(0o666)
    records = folder.read()
    assert (records.spec, records.launch, records.pid, records.phase) == (None, None, None, None)
    assert len(records.problems) == 4


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_nothing_in_a_folder_that_others_may_write_to_is_believed(folder: Folder, mode: int) -> None:
    folder.path.chmod(mode)
    with pytest.raises(NodeError, match="others may write to it"):
        folder.read()


def test_a_folder_that_is_a_link_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    folder.path.rename(tmp_path / "elsewhere")
    folder.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NodeError, match="cannot use "):
        folder.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_nothing_in_another_users_folder_is_believed(folder: Folder) -> None:
    os.chown(folder.path, 65534, 65534)
    with pytest.raises(NodeError, match="it belongs to uid 65534"):
        folder.read()


def test_a_hold_is_a_word_of_the_spec(folder: Folder) -> None:
    folder.write("spec.json", json.dumps({"format_version": 1} | GOOD["spec.json"] | {"held": True}))
    assert folder.read().is_held


def test_the_tail_of_an_exit_is_bounded_and_takes_progress_bars_apart(folder: Folder) -> None:
    tail = "\n".join(map(str, range(100))) + "\r\n1%\r2%\r3%"
    folder.write("exits.json", json.dumps({"format_version": 1, "exits": [{"code": 1, "tail": tail}]}))
    _, lines = last_exit_of(folder.read())
    assert (len(lines), lines[-4:]) == (40, ("99", "1%", "2%", "3%"))
