"""Where llmgw keeps its records on this node, and what each file is called (contract §5)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.errors import NodeError, RefusedError
from llmgw_reconcile.host.files import check_private, private_directory, read_private, remove_temporaries, write_atomic

MACHINE_ID = "/etc/machine-id"  # machine-id(5)
TMP_NAME_LIMIT = 60  # sun_path holds 107 bytes, and engines put sockets with 36-letter names and more into TMPDIR


class StateDir(NamedTuple):
    """The state directory; nothing is made before `create`."""

    root: str

    def create(self) -> None:
        """Make the directory and those in it, clear what a crash left half-written, and note whose records they are.

        Raises NodeError when one is not ours alone, and RefusedError when it is another machine's.
        """
        applied = os.path.join(self.root, "applied")
        for path in (self.root, self.engines, os.path.join(self.root, "locks"), applied):
            private_directory(path)
        for path in (self.root, applied, *(self.engine(name).path for name in self.engine_names())):
            remove_temporaries(path)
        machine = machine_id()
        if machine and not self._check_machine(machine):
            write_atomic(self._machine, machine.encode() + b"\n")

    def check(self) -> None:
        """Refuse to believe records in a directory that others may write to, or of another machine.

        Raises NodeError and RefusedError.
        """
        check_private(self.root)
        check_private(self.engines)
        self._check_machine(machine_id())

    def _check_machine(self, machine: str) -> bool:
        """Whether it is noted whose records these are; refused when they are another machine's.

        Directories are shared between machines, by NFS or by a copied disk, and pids are not.
        """
        try:
            noted = read_private(self._machine)
        except ValueError as reason:
            raise NodeError(f"cannot use {self._machine}: {reason}") from None
        if noted and machine and noted.decode("utf-8", "replace").strip() != machine:
            raise RefusedError(
                f"cannot use {self.root}: it holds the records of another machine; choose one with --state-dir, "
                f"or remove it if nothing that it records runs any more"
            )
        return bool(noted)

    @property
    def _machine(self) -> str:
        return os.path.join(self.root, "machine")

    @property
    def engines(self) -> str:
        """One folder an engine."""
        return os.path.join(self.root, "engines")

    @property
    def node_lock(self) -> str:
        """Held while planning and acting."""
        return os.path.join(self.root, "locks", "node")

    def engine_lock(self, engine: str) -> str:
        """Held by whoever works on that engine or waits for it."""
        return os.path.join(self.root, "locks", engine)

    @property
    def journal(self) -> str:
        """What was done here, when, why and by whom; an older part lies beside it."""
        return os.path.join(self.root, "journal.jsonl")

    @property
    def digest_key(self) -> str:
        """The key of the digests by which a changed secret is seen."""
        return os.path.join(self.root, "digest.key")

    def engine(self, engine: str) -> EngineDir:
        """The folder of one engine."""
        return EngineDir(os.path.join(self.engines, engine))

    def engine_names(self) -> tuple[str, ...]:
        """Engines that have a folder, sorted; a name that is no engine's is left out."""
        try:
            return tuple(sorted(name for name in os.listdir(self.engines) if "@" in name))
        except FileNotFoundError:
            return ()


class EngineDir(NamedTuple):
    """The folder of one engine."""

    path: str

    def create(self) -> None:
        """Make the folder and those in it. Raises NodeError."""
        for path in (self.path, self.work, self.log_dir, self.tmp):
            private_directory(path)

    def file(self, name: str) -> str:
        """A record: spec.json, launch.json, pid.json, phase.json, exits.json."""
        return os.path.join(self.path, name)

    @property
    def work(self) -> str:
        """The engine's empty working directory."""
        return os.path.join(self.path, "work")

    @property
    def log_dir(self) -> str:
        """A folder that holds logs only: a change in it means that the engine wrote."""
        return os.path.join(self.path, "log")

    @property
    def log(self) -> str:
        """What the engine writes to."""
        return os.path.join(self.log_dir, "engine.log")

    @property
    def previous_log(self) -> str:
        """The log of the run before."""
        return os.path.join(self.path, "previous.log")

    @property
    def supervisor_lock(self) -> str:
        """Held by the engine's supervisor as long as it lives."""
        return os.path.join(self.path, "supervisor.lock")

    @property
    def tmp(self) -> str:
        """The engine's private TMPDIR: short, since socket paths are."""
        inside = os.path.join(self.path, "tmp")
        if len(inside) <= TMP_NAME_LIMIT:
            return inside
        import hashlib  # it brings OpenSSL along, which a supervisor has no other use for

        return f"/tmp/llmgw-{hashlib.sha256(self.path.encode()).hexdigest()[:12]}"  # noqa: S108 - made 0700 and checked


def machine_id() -> str:
    """What tells this machine from others that may see the same files; empty where it has no id, as in a container."""
    try:
        with open(MACHINE_ID, encoding="ascii", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def find_state_dir(option: str | None, environ: Mapping[str, str], node: str) -> StateDir:
    """`--state-dir`, else LLMGW_STATE_DIR, else the user's or root's place. Raises RefusedError without a home."""
    chosen = option or environ.get("LLMGW_STATE_DIR")
    if not chosen and os.geteuid() == 0:
        chosen = "/var/lib/llmgw"
    if not chosen:
        home = environ.get("HOME") or os.path.expanduser("~")
        base = environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
        if not os.path.isabs(base):
            raise RefusedError("cannot tell where to keep records: this user has no home; name a place by --state-dir")
        chosen = os.path.join(base, "llmgw", node)
    return StateDir(os.path.abspath(chosen))
