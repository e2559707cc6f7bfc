"""A state file as the source: what it names is watched too, and the last apply of it is remembered."""

from __future__ import annotations

import pytest

from llmgw_reconcile.agent.source import FileSource
from llmgw_reconcile.errors import StateFileError
from llmgw_reconcile.host.files import write_atomic, write_json
from llmgw_reconcile.host.state_dir import StateDir
from tests.fakes.clock import FakeClock

STATE = "version: 1\nmodels:\n  - {name: chat, model: acme/tiny, engine: vllm, port: 8000}\n"
DIGEST = "sha256:f8511c8ca705c2077a48c0a91f07b966e84d44c389781926b0eba03868a82856"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def state_dir(tmp_path):
    state_dir = StateDir(str(tmp_path / "state"))
    state_dir.create()
    return state_dir


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "node.yaml"
    path.write_text(STATE)
    return path


def looks(source, clock, count=3):
    found = []
    for _ in range(count):
        clock.now = max(clock.now, source.look_at)
        found.append(source.has_changed())
    return found


def was_applied(state_dir, file, text=STATE):
    write_atomic(f"{state_dir.root}/applied/state.yaml", text.encode())
    write_json(f"{state_dir.root}/applied/applied.json", {"file": str(file)})


@pytest.mark.parametrize("field", ["args: [--chat-template, {file: x}]", "api_key: {file: x}", "env: {A: {file: x}}"])
def test_a_file_that_the_state_names_is_watched(tmp_path, path, clock, state_dir, field):
    (tmp_path / "x").write_text("one\n")
    path.write_text(STATE.replace("port: 8000", f"port: 8000, {field}"))
    source = FileSource(str(path), state_dir, clock)
    source.read()
    assert looks(source, clock) == [False, False, False]
    (tmp_path / "x").write_text("another\n")
    assert looks(source, clock) == [False, True, False]


def test_a_broken_file_is_refused_and_watched_on(path, clock, state_dir):
    source = FileSource(str(path), state_dir, clock)
    path.write_text("models: [\n")
    assert looks(source, clock) == [False, True, False]
    with pytest.raises(StateFileError):
        source.read()
    path.write_text(STATE)
    assert looks(source, clock) == [False, True, False]
    assert [model.name for model in source.read().state.models] == ["chat"]


def test_what_was_applied_last_from_this_file_is_kept(path, clock, state_dir):
    was_applied(state_dir, path)
    path.write_text("")
    kept = FileSource(str(path), state_dir, clock).kept()
    assert kept is not None
    assert (kept.state.source, [model.name for model in kept.state.models]) == (str(path), ["chat"])


def test_what_was_applied_from_another_file_is_none_of_it(tmp_path, path, clock, state_dir):
    was_applied(state_dir, tmp_path / "other.yaml")
    assert FileSource(str(path), state_dir, clock).kept() is None


@pytest.mark.parametrize("text", ["", "models: ["])
def test_a_record_that_is_no_state_is_none(path, clock, state_dir, text):
    was_applied(state_dir, path, text)
    assert FileSource(str(path), state_dir, clock).kept() is None


def test_nothing_is_kept_before_the_first_apply(path, clock, state_dir):
    assert FileSource(str(path), state_dir, clock).kept() is None


def test_events_name_file_and_digest(path, clock, state_dir):
    source = FileSource(str(path), state_dir, clock)
    assert source.version(source.read()) == {
        "file": str(path),
        "digest": DIGEST,
        "commit": None,
    }
