"""A git repository that somebody else commits to, with signatures where a test wants them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Origin:
    """A repository in a folder, and the environment in which everybody's git runs: no configuration of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "origin"
        self.key = folder / "key"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "somebody@example.org", "-f", str(self.key)],
            check=True,
        )
        (folder / "signers").write_text(f"somebody@example.org {self.key.with_suffix('.pub').read_text()}")
        (folder / "gitconfig").write_text(
            "[user]\n\tname = Somebody\n\temail = somebody@example.org\n"
            "[init]\n\tdefaultBranch = main\n[gpg]\n\tformat = ssh\n"
            f'[user]\n\tsigningKey = {self.key}\n[gpg "ssh"]\n\tallowedSignersFile = {folder / "signers"}\n'
        )
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.work.mkdir()
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.work, env=self.env, check=True, text=True, stdout=subprocess.PIPE
        )
        return done.stdout.strip()

    def commit(self, files: dict[str, str], *, signed: bool = False) -> str:
        """Write these files and commit them; the commit's id."""
        for name, text in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=change", *(["-S"] if signed else []))
        return self.git("rev-parse", "HEAD")
