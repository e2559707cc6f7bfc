"""Tell which commit is checked out where a file lies, from git's own files and without running git."""

from __future__ import annotations

import os
import re

from llmgw_reconcile.host.file_start import read_start

READ_LIMIT = 4096
PACKED_LIMIT = 16 << 20
DEEPEST_LINK = 5  # symbolic references that lead to one another

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")  # SHA-1, SHA-256
_BRANCH = re.compile(r"ref: (refs/[^\s]+)")


def commit_of(path: str) -> str | None:
    """The commit of the work tree that holds the file; None outside of one, and before its first commit.

    The file itself may have been changed since: whether it was, only git could tell.
    """
    folder = os.path.dirname(os.path.realpath(path))
    while True:
        git = _git_folder(os.path.join(folder, ".git"))
        if git is not None:
            return _resolve(git, "HEAD")
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _git_folder(path: str) -> str | None:
    """The folder that `.git` is, or that it names, as in a linked work tree or a submodule."""
    if os.path.isdir(path):
        return path
    line = _line(path)
    named = line.removeprefix("gitdir: ")
    return os.path.join(os.path.dirname(path), named) if named != line else None


def _resolve(git: str, name: str) -> str | None:
    for _ in range(DEEPEST_LINK):
        line = _reference(git, name)
        if _COMMIT.fullmatch(line):
            return line
        branch = _BRANCH.fullmatch(line)
        if branch is None or ".." in branch[1]:
            return None
        name = branch[1]
    return None


def _reference(git: str, name: str) -> str:
    """What a reference holds: its own file, also of the repository that a linked work tree belongs to, or packed."""
    common = os.path.join(git, _line(os.path.join(git, "commondir")) or ".")
    for folder in (git, common):
        if line := _line(os.path.join(folder, name)):
            return line
    return _packed(os.path.join(common, "packed-refs"), name)


def _packed(path: str, name: str) -> str:
    try:
        text = read_start(path, PACKED_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""
    wanted = f" {name}"
    return next((line.removesuffix(wanted) for line in text.splitlines() if line.endswith(wanted)), "")


def _line(path: str) -> str:
    try:
        return read_start(path, READ_LIMIT).decode("utf-8", "replace").strip()
    except OSError:
        return ""
