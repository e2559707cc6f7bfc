"""Where records are kept, and whose they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from llmgw_reconcile.errors import NodeError, RefusedError
from llmgw_reconcile.host import state_dir as state_dir_module
from llmgw_reconcile.host.state_dir import EngineDir, StateDir, find_state_dir
from tests.fakes.users import NOBODY, root_only, told_as


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "machine-id"
    path.write_text("11112222333344445555666677778888\n")
    monkeypatch.setattr(state_dir_module, "MACHINE_ID", str(path))
    return path


@pytest.fixture
def place(tmp_path: Path) -> StateDir:
    return StateDir(str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("option", "environ", "expected"),
    [
        pytest.param("/a", {"LLMGW_STATE_DIR": "/b"}, "/a", id="the-option-first"),
        pytest.param(None, {"LLMGW_STATE_DIR": "/b"}, "/b", id="then-the-variable"),
        pytest.param("", {"LLMGW_STATE_DIR": ""}, "/var/lib/llmgw", id="empty-is-unset"),
        pytest.param("/a/../c", {}, "/c", id="in-its-shortest-form"),
    ],
)
@root_only
def test_the_place_is_chosen_in_this_order(option: str | None, environ: dict[str, str], expected: str) -> None:
    assert find_state_dir(option, environ, "gpu-07").root == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({"HOME": "/home/u"}, "/home/u/.local/state/llmgw/gpu-07", id="below-the-home"),
        pytest.param({"HOME": "/home/u", "XDG_STATE_HOME": "/x"}, "/x/llmgw/gpu-07", id="where-xdg-says"),
        pytest.param({"XDG_STATE_HOME": "x"}, "RefusedError", id="not-relative-to-wherever-one-stands"),
    ],
)
@root_only
def test_a_user_has_a_place_of_his_own_for_each_machine(environ: dict[str, str], expected: str) -> None:
    assert told_as(NOBODY, lambda: find_state_dir(None, environ, "gpu-07").root) == expected


def test_a_relative_place_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_state_dir("state", {}, "gpu-07").root == str(tmp_path / "state")


def test_nothing_is_made_before_it_is_asked_for(place: StateDir) -> None:
    place.check()
    assert place.engine_names() == ()
    assert not os.path.exists(place.root)


def test_everything_in_it_is_private_whatever_the_umask(place: StateDir) -> None:
    before = os.umask(0)
    try:
        place.create()
        place.engine("chat@0").create()  # its path is long here, so that its tmp lies elsewhere
    finally:
        os.umask(before)
    made = [Path(folder) for folder, _, _ in os.walk(place.root)]
    names = {str(path.relative_to(place.root)) for path in made}
    engine = {f"engines/chat@0{below}" for below in ("", "/log", "/work")}
    assert names == {".", "applied", "locks", "engines", *engine}
    made.append(Path(place.engine("chat@0").tmp))
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}
    made[-1].rmdir()


def test_each_thing_has_its_place(place: StateDir) -> None:
    root, engine = place.root, place.engine("chat@0")
    assert place.node_lock == f"{root}/locks/node"
    assert place.engine_lock("chat@0") == f"{root}/locks/chat@0"
    assert place.digest_key == f"{root}/digest.key"
    assert engine.file("pid.json") == f"{root}/engines/chat@0/pid.json"
    assert engine.log == f"{root}/engines/chat@0/log/engine.log"
    assert engine.previous_log == f"{root}/engines/chat@0/previous.log"
    assert engine.supervisor_lock == f"{root}/engines/chat@0/supervisor.lock"


def test_engines_are_those_that_have_a_folder_in_order(place: StateDir) -> None:
    place.create()
    for name in ("chat@10", "chat@2", "a@0", ".hidden", "note"):
        os.mkdir(os.path.join(place.engines, name))
    assert place.engine_names() == ("a@0", "chat@10", "chat@2")


@pytest.mark.parametrize("below", ["", "engines"], ids=["the-root", "the-engines"])
def test_records_that_others_may_write_to_are_refused(place: StateDir, below: str) -> None:
    place.create()
    os.chmod(os.path.join(place.root, below), 0o777)
    with pytest.raises(NodeError, match="others may write to it"):
        place.check()
    with pytest.raises(NodeError, match="others may write to it"):
        place.create()


def test_records_of_another_machine_are_refused(place: StateDir, machine: Path) -> None:
    place.create()
    place.check()
    machine.write_text("99992222333344445555666677778888\n")
    with pytest.raises(RefusedError, match="it holds the records of another machine; choose one with --state-dir"):
        place.check()
    with pytest.raises(RefusedError):
        place.create()


def test_a_machine_without_an_id_can_be_told_from_none(place: StateDir, machine: Path) -> None:
    place.create()
    machine.unlink()
    place.check()
    place.create()


def test_a_note_of_the_machine_that_cannot_be_believed_is_refused(place: StateDir) -> None:
    place.create()
    note = Path(place.root) / "machine"
    note.chmod(0o666)
    with pytest.raises(NodeError, match=r"cannot use .*/machine: others may write to it"):
        place.check()


def test_what_a_crash_left_half_written_is_cleared_by_the_next_apply(place: StateDir) -> None:
    place.create()
    os.mkdir(place.engine("chat@0").path)
    names = ("digest.key", "applied/applied.json", "engines/chat@0/pid.json")
    for name in names:
        Path(place.root, name).write_text("")
        Path(place.root, f"{name}.4194305.tmp").write_text("")
    place.create()
    assert not list(Path(place.root).rglob("*.tmp"))
    assert all(Path(place.root, name).exists() for name in names)


def test_a_long_place_gets_a_short_folder_for_sockets() -> None:
    short = EngineDir("/var/lib/llmgw/engines/chat@0")
    long = EngineDir("/data/" + "x" * 80 + "/engines/chat@0")
    assert short.tmp == "/var/lib/llmgw/engines/chat@0/tmp"
    assert long.tmp.startswith("/tmp/llmgw-")
    assert len(long.tmp) == 23
    assert long.tmp != EngineDir("/data/" + "x" * 80 + "/engines/chat@1").tmp
