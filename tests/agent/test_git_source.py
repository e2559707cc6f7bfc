"""A repository as the source of the state: what is taken, what is refused, and what stays then."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw_reconcile.agent.git import Repository, repository_folder
from llmgw_reconcile.agent.git_source import GitSource
from llmgw_reconcile.errors import NodeError, RefusedError
from llmgw_reconcile.host.checkout import commit_of
from llmgw_reconcile.host.state_dir import StateDir
from tests.fakes.clock import FakeClock
from tests.fakes.git import Origin

FILE = "nodes/gpu-07.yaml"


def state(name="chat", extra=""):
    return f"version: 1\nmodels:\n  - {{name: {name}, model: acme/tiny, engine: vllm, port: 8000{extra}}}\n"


@pytest.fixture
def origin(tmp_path):
    found = Origin(tmp_path)
    found.commit({FILE: state()}, signed=True)
    return found


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def open_source(origin, clock, tmp_path):
    state_dir = StateDir(str(tmp_path / "state"))
    state_dir.create()

    def build(*, path=FILE, verify_signatures=False):
        repository = Repository(repository_folder(state_dir), str(origin.work), origin.env)
        return GitSource(repository, "main", path, interval=60.0, verify_signatures=verify_signatures, clock=clock)

    return build


def models(wish):
    return [model.name for model in wish.state.models]


def test_the_newest_commit_is_wanted_after_an_interval(origin, clock, open_source):
    source = open_source()
    assert models(source.read()) == ["chat"]
    second = origin.commit({FILE: state("code")})
    clock.now += 59
    assert models(source.read()) == ["chat"]
    clock.now += 1
    assert models(wish := source.read()) == ["code"]
    assert commit_of(wish.state.source) == second


def test_a_person_need_not_wait_for_the_interval(origin, open_source):
    source = open_source()
    source.read()
    origin.commit({FILE: state("code")})
    source.hurry()
    assert models(source.read()) == ["code"]


def test_the_state_keeps_its_path_and_so_the_files_that_it_names(origin, clock, open_source):
    source = open_source()
    origin.commit({FILE: state(extra=", args: [--chat-template, {file: ../x.jinja}]"), "x.jinja": "one\n"})
    first = source.read().state
    origin.commit({FILE: state(extra=", args: [--chat-template, {file: ../x.jinja}], max_model_len: 4096")})
    clock.now += 60
    second = source.read().state
    assert first.models[0].args == second.models[0].args
    assert first.models[0].args[1].digest.startswith("sha256:")


def test_a_broken_commit_is_refused_and_the_files_are_those_of_the_good_one(origin, clock, open_source):
    source = open_source()
    source.accept(source.read())
    bad = origin.commit({FILE: "models: [broken\n", "x.jinja": "of the bad commit\n"})
    clock.now += 60
    with pytest.raises(RefusedError, match=f"commit {bad[:12]} of main is refused: .*gpu-07.yaml:2:1"):
        source.read()
    good = source.kept()
    assert good is not None
    assert models(good) == ["chat"]
    assert not Path(good.state.source).parents[1].joinpath("x.jinja").exists()


def test_a_refused_commit_is_not_loaded_again_and_the_next_one_is(origin, clock, open_source, tmp_path):
    source = open_source()
    source.accept(source.read())
    origin.commit({FILE: "models: [broken\n"})
    clock.now += 60
    messages = []
    for _ in range(2):
        with pytest.raises(RefusedError) as caught:
            source.read()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    origin.commit({FILE: state("code")})
    clock.now += 60
    assert models(source.read()) == ["code"]


def test_what_a_guard_refuses_gives_way_to_the_good_commit_and_is_offered_again(origin, clock, open_source):
    source = open_source()
    source.accept(source.read())
    origin.commit({FILE: state("code"), "x.jinja": "new\n"})
    clock.now += 60
    wish = source.read()
    source.refuse(wish)
    assert not Path(wish.state.source).parents[1].joinpath("x.jinja").exists()
    assert models(source.read()) == ["code"]
    assert Path(wish.state.source).parents[1].joinpath("x.jinja").read_text() == "new\n"


def test_the_good_commit_is_known_after_a_restart_without_a_network(origin, open_source):
    source = open_source()
    source.accept(source.read())
    origin.work.rename(origin.folder / "away")
    after = open_source()
    with pytest.raises(NodeError, match="cannot fetch main from"):
        after.read()
    kept = after.kept()
    assert kept is not None
    assert models(kept) == ["chat"]


def test_an_unreachable_repository_is_asked_once_an_interval(origin, clock, open_source):
    source = open_source()
    source.read()
    away = origin.work.rename(origin.folder / "away")
    clock.now += 60
    with pytest.raises(NodeError):
        source.read()
    away.rename(origin.work)
    with pytest.raises(NodeError):
        source.read()
    clock.now += 60
    assert models(source.read()) == ["chat"]


def test_nothing_is_kept_before_anything_was_accepted(open_source):
    assert open_source().kept() is None


def test_with_verified_signatures_a_signed_commit_is_taken_and_an_unsigned_one_refused(origin, clock, open_source):
    source = open_source(verify_signatures=True)
    source.accept(source.read())
    unsigned = origin.commit({FILE: state("code")})
    clock.now += 60
    with pytest.raises(RefusedError, match=f"commit {unsigned[:12]} of main is refused: cannot verify the signature"):
        source.read()
    origin.commit({FILE: state("code")}, signed=True)
    clock.now += 60
    assert models(source.read()) == ["code"]


def test_a_file_that_is_not_there_is_refused(open_source):
    with pytest.raises(RefusedError, match="cannot read the state file: No such file or directory"):
        open_source(path="nodes/gpu-08.yaml").read()


def test_a_link_out_of_the_repository_is_refused(origin, open_source):
    (origin.work / "link.yaml").symlink_to("/etc/hostname")
    origin.commit({})
    with pytest.raises(RefusedError, match=r"link\.yaml leads out of the repository"):
        open_source(path="link.yaml").read()


def test_events_name_commit_and_repository_without_a_password(origin, open_source):
    source = open_source()
    wish = source.read()
    assert source.version(wish) == {
        "file": FILE,
        "digest": wish.state.digest,
        "commit": origin.git("rev-parse", "HEAD"),
        "repository": str(origin.work),
        "ref": "main",
    }
