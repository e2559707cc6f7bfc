"""The commit is read from git's own files; a repository made by git itself is the judge where git is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from llmgw_reconcile.host.checkout import commit_of

ONE, TWO = "1" * 40, "2" * 40
GIT = shutil.which("git")


def repository(root: Path, files: dict[str, str]) -> Path:
    """A made-up repository; the state file that lies in it."""
    for name, text in {"states/node.yaml": "version: 1\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "states/node.yaml"


@pytest.mark.parametrize(
    ("files", "commit"),
    [
        pytest.param({".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": f"{ONE}\n"}, ONE, id="a branch"),
        pytest.param({".git/HEAD": f"{ONE}\n"}, ONE, id="a detached head"),
        pytest.param({".git/HEAD": f"{'a' * 64}\n"}, "a" * 64, id="a repository with SHA-256"),
        pytest.param(
            {
                ".git/HEAD": "ref: refs/heads/main\n",
                ".git/packed-refs": f"# pack-refs with: peeled\n{TWO} refs/heads/not-main\n{ONE} refs/heads/main\n",
            },
            ONE,
            id="a packed branch",
        ),
        pytest.param(
            {
                ".git/HEAD": "ref: refs/heads/main\n",
                ".git/refs/heads/main": f"{ONE}\n",
                ".git/packed-refs": f"{TWO} refs/heads/main\n",
            },
            ONE,
            id="a branch that moved since it was packed",
        ),
        pytest.param({".git/HEAD": "ref: refs/heads/main\n"}, None, id="before the first commit"),
        pytest.param({".git/HEAD": "ref: refs/heads/.invalid\n"}, None, id="references in a format of its own"),
        pytest.param({".git/HEAD": "ref: refs/../../victim\n", "victim": f"{ONE}\n"}, None, id="a path that climbs"),
        pytest.param({".git/HEAD": "ref: refs/a\n", ".git/refs/a": "ref: refs/a\n"}, None, id="a ring of references"),
        pytest.param({".git/HEAD": "nonsense\n"}, None, id="a damaged head"),
        pytest.param({".git/x": ""}, None, id="no head"),
        pytest.param(
            {
                ".git": "gitdir: elsewhere/worktrees/w\n",
                "elsewhere/worktrees/w/HEAD": "ref: refs/heads/w\n",
                "elsewhere/worktrees/w/commondir": "../..\n",
                "elsewhere/refs/heads/w": f"{ONE}\n",
            },
            ONE,
            id="a linked work tree",
        ),
    ],
)
def test_the_commit_that_is_checked_out(tmp_path: Path, files: dict[str, str], commit: str | None) -> None:
    assert commit_of(str(repository(tmp_path, files))) == commit


def test_a_link_to_a_file_in_a_checkout_leads_to_its_commit(tmp_path: Path) -> None:
    state = repository(tmp_path / "checkout", {".git/HEAD": f"{ONE}\n"})
    link = tmp_path / "node.yaml"
    link.symlink_to(state)
    assert commit_of(str(link)) == ONE


def test_a_file_that_lies_in_no_checkout_has_no_commit(tmp_path: Path) -> None:
    state = tmp_path / "node.yaml"
    state.write_text("version: 1\n")
    assert commit_of(str(state)) is None


@pytest.mark.skipif(GIT is None, reason="git is not installed")
def test_git_itself_agrees(tmp_path: Path) -> None:
    def git(*words: str, folder: Path = tmp_path) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        done = subprocess.run([str(GIT), *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    state = repository(tmp_path, {})
    assert commit_of(str(state)) is None
    git("add", ".")
    git("commit", "-qm", "one")
    assert commit_of(str(state)) == git("rev-parse", "HEAD")
    git("pack-refs", "--all")
    assert commit_of(str(state)) == git("rev-parse", "HEAD")
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    git("commit", "-q", "--allow-empty", "-m", "two", folder=tmp_path / "tree")
    assert commit_of(str(tmp_path / "tree/states/node.yaml")) == git("rev-parse", "other")
    assert commit_of(str(state)) != git("rev-parse", "other")
