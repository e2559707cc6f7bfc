"""The system's git, on repositories made here: what is fetched, what is refused, and what it never does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from llmgw_reconcile.agent.git import Repository, check_path, check_ref, check_url, shown_url
from llmgw_reconcile.errors import NodeError, RefusedError
from tests.fakes.git import Origin


@pytest.fixture
def origin(tmp_path):
    return Origin(tmp_path)


@pytest.fixture
def repository(origin, tmp_path):
    found = Repository(str(tmp_path / "clone"), str(origin.work), origin.env)
    found.prepare()
    return found


def tree_of(repository):
    tree = Path(repository.tree)
    files = (path for path in tree.rglob("*") if path.is_file() and path.name != ".git")
    return {str(path.relative_to(tree)): path.read_text() for path in files}


def test_a_branch_is_fetched_and_checked_out_whole(origin, repository):
    first = origin.commit({"nodes/a.yaml": "one\n", "templates/x.jinja": "x\n"})
    assert repository.fetch("main") == first
    repository.check_out(first)
    assert tree_of(repository) == {"nodes/a.yaml": "one\n", "templates/x.jinja": "x\n"}


def test_the_work_tree_stays_in_its_place_and_holds_nothing_of_an_earlier_commit(origin, repository):
    origin.commit({"a": "1", "b": "1"})
    repository.check_out(repository.fetch("main"))
    (origin.work / "b").unlink()
    second = origin.commit({"a": "2"})
    Path(repository.tree, "stray").touch()
    assert repository.fetch("main") == second
    repository.check_out(second)
    assert tree_of(repository) == {"a": "2"}


def test_it_goes_back_to_a_commit_that_no_branch_holds_any_more(origin, repository):
    first = origin.commit({"a": "1"})
    repository.check_out(repository.fetch("main"))
    repository.mark_good(first)
    origin.commit({"a": "2"})
    origin.git("commit", "--quiet", "--amend", "--message=rewritten")
    repository.check_out(repository.fetch("main"))
    assert repository.good() == first
    repository.check_out(first)
    assert tree_of(repository) == {"a": "1"}


@pytest.mark.parametrize("kind", ["lightweight", "annotated", "commit"])
def test_a_tag_or_a_commit_names_what_to_fetch(origin, repository, kind):
    commit = origin.commit({"a": "1"})
    origin.git("tag", *(["--annotate", "--message=v1"] if kind == "annotated" else []), "v1")
    origin.commit({"a": "2"})
    assert repository.fetch(commit if kind == "commit" else "v1") == commit


def test_a_forced_push_is_followed(origin, repository):
    origin.commit({"a": "1"})
    repository.fetch("main")
    origin.git("commit", "--quiet", "--amend", "--message=other")
    assert repository.fetch("main") == origin.git("rev-parse", "HEAD")


def test_a_signed_commit_is_verified(origin, repository):
    origin.commit({"a": "1"}, signed=True)
    repository.fetch("main")
    repository.verify()


def test_a_signed_tag_speaks_for_its_commit(origin, repository):
    origin.commit({"a": "1"})
    origin.git("tag", "--sign", "--message=v1", "v1")
    repository.fetch("v1")
    repository.verify()


def test_an_unsigned_commit_is_not_verified(origin, repository):
    commit = origin.commit({"a": "1"})
    repository.fetch("main")
    with pytest.raises(NodeError, match=f"cannot verify the signature of commit {commit}"):
        repository.verify()


def test_the_signature_of_a_stranger_is_not_verified(origin, repository):
    origin.commit({"a": "1"}, signed=True)
    (origin.folder / "signers").write_text("")
    repository.fetch("main")
    with pytest.raises(NodeError, match="cannot verify the signature of commit"):
        repository.verify()


def test_a_reference_that_is_not_there_is_told_with_gits_own_words(origin, repository):
    origin.commit({"a": "1"})
    with pytest.raises(NodeError) as caught:
        repository.fetch("no-such-branch")
    assert str(caught.value) == (
        f"cannot fetch no-such-branch from {origin.work}: fatal: couldn't find remote ref no-such-branch"
    )


def test_no_hook_of_anybody_runs(origin, repository, tmp_path):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "post-checkout").chmod(0o755)
    with (origin.folder / "gitconfig").open("a") as file:
        file.write(f"[core]\n\thooksPath = {hooks}\n[init]\n\ttemplateDir = {tmp_path}\n")
    origin.commit({"a": "1"})
    repository.check_out(repository.fetch("main"))
    assert not (tmp_path / "ran").exists()


def test_files_are_for_their_owner_alone(origin, repository, tmp_path):
    assert (tmp_path / "clone").stat().st_mode & 0o777 == 0o700


def test_another_repository_in_the_environment_is_not_touched(origin, tmp_path):
    origin.commit({"a": "1"})
    innocent = tmp_path / "innocent"
    subprocess.run(["git", "init", "--quiet", "--bare", str(innocent)], env=origin.env, check=True)
    before = sorted(str(path) for path in innocent.rglob("*"))
    environ = {**origin.env, "GIT_DIR": str(innocent), "GIT_INDEX_FILE": str(innocent / "index")}
    repository = Repository(str(tmp_path / "clone"), str(origin.work), environ)
    repository.prepare()
    repository.check_out(repository.fetch("main"))
    assert sorted(str(path) for path in innocent.rglob("*")) == before


def test_a_password_in_the_url_stands_in_no_message_and_on_no_command_line(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/argv\necho "fatal: no s3cr3t-token at $GIT_CONFIG_VALUE_0" >&2\nexit 128\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    url = "https://bot:s3cr3t-token@git.example.org/site.git"
    repository = Repository(str(tmp_path), url, {"PATH": "/usr/bin:/bin"})
    with pytest.raises(NodeError) as caught:
        repository.fetch("main")
    assert str(caught.value) == (
        "cannot fetch main from https://git.example.org/site.git: "
        "fatal: no (secret) at https://git.example.org/site.git"
    )
    assert "s3cr3t" not in (tmp_path / "argv").read_text()


def test_git_asks_nobody(tmp_path, monkeypatch):
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/environment\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    Repository(str(tmp_path), "https://git.example.org/site.git", {}).fetch("main")
    seen = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines() if "=" in line)
    assert (seen["GIT_TERMINAL_PROMPT"], seen["SSH_ASKPASS"], seen["SSH_ASKPASS_REQUIRE"]) == (
        *("0", "/bin/false", "force"),
    )


def test_means_of_the_users_own_reach_git(tmp_path, monkeypatch):
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/environment\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    own = {"SSH_ASKPASS": "/opt/ask", "GIT_SSH_COMMAND": "ssh -i k", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b"}
    Repository(str(tmp_path), "ssh://git.example.org/site.git", own).fetch("main")
    seen = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines() if "=" in line)
    assert {
        name: seen[name] for name in ("SSH_ASKPASS", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0")
    } == {
        "SSH_ASKPASS": "/opt/ask",
        "GIT_SSH_COMMAND": "ssh -i k",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "a.b",
    }
    assert seen["GIT_CONFIG_VALUE_1"] == "ssh://git.example.org/site.git"


@pytest.mark.parametrize(
    "url",
    ["", "-u", "--upload-pack=touch x", "ext::sh -c touch% x", "fd::17", "https://a.example/\nb", "a\x1b[31m"],
)
def test_a_url_that_is_an_option_or_a_command_is_refused(url):
    with pytest.raises(RefusedError, match="name a repository"):
        check_url(url)


@pytest.mark.parametrize(
    "url",
    ["https://git.example.org/a.git", "ssh://git@host:2222/a", "git@host:a/b.git", "/srv/git/a.git", "file:///srv/a"],
)
def test_a_url_or_a_path_is_accepted(url):
    check_url(url)


@pytest.mark.parametrize(
    "ref",
    ["", "-f", "--all", "+main", "a:b", "main..other", "a b", "a^", "a~1", "*", "a\x00", "/a", "a/", "a.lock", "@{u}"],
)
def test_a_reference_that_is_an_option_or_an_expression_is_refused(ref):
    with pytest.raises(RefusedError, match="name a branch, a tag or a commit"):
        check_ref(ref)


@pytest.mark.parametrize("ref", ["main", "release/2026-01", "v1.0", "refs/tags/v1", "team#7", "0f" * 20])
def test_a_branch_a_tag_or_a_commit_is_accepted(ref):
    check_ref(ref)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://token@host/a", "https://host/a"),
        ("https://host/a@b", "https://host/a@b"),
        ("git@host:a", "git@host:a"),
        ("ssh://git:pw@host/a", "ssh://host/a"),
    ],
)
def test_a_shown_url_names_no_user_and_no_password(url, shown):
    assert shown_url(url) == shown


@pytest.mark.parametrize("path", ["/etc/llmgw.yaml", "../node.yaml", "nodes/../../node.yaml", ".", "", ".."])
def test_a_path_out_of_the_repository_is_refused(path):
    with pytest.raises(RefusedError, match="by its path within the repository"):
        check_path(path)


@pytest.mark.parametrize("path", ["node.yaml", "./node.yaml", "nodes/..node.yaml", ".llmgw/node.yaml"])
def test_a_path_within_the_repository_is_accepted(path):
    check_path(path)
