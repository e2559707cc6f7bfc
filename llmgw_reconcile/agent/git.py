"""Run the system's git on one clone of ours: fetch a reference, verify, check out; bounded, and never asking anybody.

Credentials are git's own affair: its helpers, its configuration, ssh and its agent. A URL with a password in it reaches
git through the environment, since everybody can read a command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from llmgw_reconcile.errors import NodeError, RefusedError
from llmgw_reconcile.host.files import private_directory
from llmgw_reconcile.host.state_dir import StateDir
from llmgw_reconcile.host.tool import finish_tools, start_tool
from llmgw_reconcile.model.safe_text import mask, neutralise

FETCH_SECONDS = 60.0
LOCAL_SECONDS = 30.0  # for what needs no network
MESSAGE_LIMIT = 300  # characters of git's words

FETCHED, GOOD = "refs/llmgw/fetched", "refs/llmgw/good"
REMOTE = "llmgw"
# No hook and no filter of a template runs, bytes come out as they were committed, and nothing is left running.
SETTINGS = ("core.hooksPath=/dev/null", "core.autocrlf=false", "core.fsmonitor=false", "gc.autoDetach=false")
# These would lead git to another repository than ours (`git rev-parse --local-env-vars`).
_ELSEWHERE = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
    *("GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_GRAFT_FILE"),
)
_USERINFO = re.compile(r"(?<=://)[^/@]+@")
_TRANSPORT = re.compile(r"[A-Za-z0-9+.-]*::")  # gitremote-helpers(7): `ext::` runs any command
_BAD_IN_A_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")  # git-check-ref-format(1)


def check_url(url: str) -> None:
    """Raises RefusedError for what git would take for an option, or for a command to run."""
    if not url or url.startswith("-") or not url.isprintable() or _TRANSPORT.match(url):
        raise RefusedError(f"cannot fetch from {neutralise(shown_url(url))!r}: name a repository by its URL or path")


def check_ref(ref: str) -> None:
    """Raises RefusedError for what is no name of a branch, a tag or a commit."""
    if not ref or ref[0] in "-+/." or ref.endswith(("/", ".", ".lock")) or _BAD_IN_A_REF.search(ref):
        raise RefusedError(f"cannot fetch {neutralise(ref)!r}: name a branch, a tag or a commit")


def check_path(path: str) -> None:
    """Raises RefusedError for what is no path of a file within a repository."""
    inside = os.path.normpath(path)
    if os.path.isabs(inside) or inside.split(os.sep)[0] in (os.pardir, os.curdir):
        raise RefusedError(f"cannot use {neutralise(path)!r}: name a file by its path within the repository")


def repository_folder(state_dir: StateDir) -> str:
    """Where the clone of this node is."""
    return os.path.join(state_dir.root, "git")


def shown_url(url: str) -> str:
    """The URL without what may be a secret in it.

    >>> shown_url("https://bot:token@git.example.org/site.git")
    'https://git.example.org/site.git'
    """
    return _USERINFO.sub("", url)


def holds_a_secret(url: str) -> bool:
    """Whether everybody who sees the URL can do what its owner may: a password, or a token in the place of a user.

    >>> holds_a_secret("https://token@git.example.org/a"), holds_a_secret("ssh://git@git.example.org/a")
    (True, False)
    """
    found = _USERINFO.search(url)
    return found is not None and (url.startswith("http") or ":" in found[0])


class Repository:
    """A bare clone and one work tree, below `folder`. The tree never moves: paths in it are part of engines' specs."""

    def __init__(self, folder: str, url: str, environ: Mapping[str, str]) -> None:
        self._folder, self._clone = folder, os.path.join(folder, "repo.git")
        self.tree = os.path.join(folder, "tree")
        self._url = os.path.abspath(url) if os.path.isdir(url) else url
        self.shown_url = shown_url(self._url)
        self._environment = _environment(environ, self._url)
        userinfo = [found.removesuffix("@") for found in _USERINFO.findall(url)]
        self._secrets = [*userinfo, *(part.partition(":")[2] for part in userinfo)]

    def prepare(self) -> None:
        """Make the clone where there is none. Raises NodeError."""
        private_directory(self._folder)
        if not os.path.exists(os.path.join(self._clone, "HEAD")):
            self._run("make a clone", self._folder, "init", "--quiet", "--bare", "--template=", self._clone)

    def fetch(self, ref: str) -> str:
        """Fetch a branch, tag or commit; the id of its commit. Raises NodeError."""
        what = f"fetch {ref} from {self.shown_url}"
        options = ("--quiet", "--force", "--no-tags", "--depth=1", "--no-recurse-submodules", "--no-write-fetch-head")
        self._run(what, self._clone, "fetch", *options, REMOTE, f"+{ref}:{FETCHED}", timeout=FETCH_SECONDS)
        return self._commit(FETCHED) or ""

    def last_fetched(self) -> str | None:
        """The commit that was fetched last; None before the first."""
        return self._commit(FETCHED)

    def good(self) -> str | None:
        """The commit that was marked as good; None where none was."""
        return self._commit(GOOD)

    def mark_good(self, commit: str) -> None:
        """Remember it over restarts. Raises NodeError."""
        self._run("mark a commit", self._clone, "update-ref", GOOD, commit)

    def verify(self) -> None:
        """Raises NodeError unless the commit, or the annotated tag, that was fetched last bears a good signature."""
        kind = self._run("look at a commit", self._clone, "cat-file", "-t", FETCHED).strip()
        named = self._run("look at a commit", self._clone, "rev-parse", "--verify", FETCHED).strip()
        what = f"verify the signature of {kind} {named}"
        self._run(what, self._clone, "verify-tag" if kind == "tag" else "verify-commit", named)

    def check_out(self, commit: str) -> None:
        """Make the work tree that of the commit, and nothing else. Raises NodeError."""
        what = f"check out {commit}"
        if not os.path.exists(os.path.join(self.tree, ".git")):
            self._run(what, self._clone, "worktree", "prune")
            self._run(what, self._clone, "worktree", "add", "--quiet", "--force", "--detach", self.tree, commit)
            return
        self._run(what, self.tree, "checkout", "--quiet", "--force", "--detach", commit, "--")
        self._run(what, self.tree, "clean", "-ffdxq")

    def _commit(self, name: str) -> str | None:
        try:
            found = self._run("look at a commit", self._clone, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        except NodeError:
            return None
        return found.strip() or None

    def _run(self, what: str, folder: str, *arguments: str, timeout: float = LOCAL_SECONDS) -> str:
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        argv = ["git", "-C", folder, *settings, *arguments]
        (answer,) = finish_tools([start_tool(argv, timeout=timeout, env=self._environment)])
        if answer.returncode != 0:
            raise NodeError(f"cannot {what}: {self._words(answer.problem, answer.stderr)}")
        return answer.stdout

    def _words(self, problem: str, text: str) -> str:
        """What git says went wrong: its last words of that kind, else its last line."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        told = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
        words = problem or (told[-1] if told else "git gives no reason")
        return neutralise(_USERINFO.sub("", mask(words, self._secrets)), MESSAGE_LIMIT)


def _environment(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """The user's own, less what leads elsewhere and what asks: no terminal, no window, no prompt of ssh."""
    kept = {name: value for name, value in environ.items() if name not in _ELSEWHERE}
    count = int(kept.get("GIT_CONFIG_COUNT", "0") or 0)
    quiet = {"SSH_ASKPASS": "/bin/false", "SSH_ASKPASS_REQUIRE": "force"}
    return {
        **quiet,
        **kept,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"remote.{REMOTE}.url",
        f"GIT_CONFIG_VALUE_{count}": url,
    }
