"""Read the records of one engine's folder into values, believing none that is damaged or of another version."""

from __future__ import annotations

from typing import Any, NamedTuple

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.host.family import LAUNCH_VARIABLE, Family
from llmgw_reconcile.host.files import check_private, read_json
from llmgw_reconcile.host.proc import command_digest, environment_lacks, is_alive
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.observed import LastExit, Phase, ProcessId
from llmgw_reconcile.model.spec import Document

FORMAT_VERSION = 1
TAIL_LINES = 40


class StrangerError(ValueError):
    """A pid file names a live process that is none of ours."""


class PidRecord(NamedTuple):
    """pid.json: which process an engine was, in which boot."""

    boot_id: str
    leader: ProcessId
    uid: int
    launch: str
    members: tuple[ProcessId, ...]
    was_ready: bool

    @property
    def family(self) -> Family:
        """For finding its processes."""
        return Family(self.leader, frozenset(self.members), self.launch)


class PhaseRecord(NamedTuple):
    """phase.json: what its supervisor last said, and which process that supervisor is."""

    boot_id: str
    supervisor: ProcessId
    phase: Phase
    since: str
    detail: str
    restarts: int
    launch: str
    load_seconds: float | None = None  # from the start of its process until it was ready; None: not known


class EngineRecords(NamedTuple):
    """All records of one engine; None where one is absent or was set aside, which `problems` tells."""

    engine: str
    spec: Document | None = None
    launch: Document | None = None
    pid: PidRecord | None = None
    phase: PhaseRecord | None = None
    exits: tuple[Document, ...] = ()
    problems: tuple[Diagnostic, ...] = ()

    @property
    def launch_id(self) -> str:
        """The id of the last launch; empty when its record is lost."""
        return str(self.launch["id"]) if self.launch else ""

    @property
    def is_held(self) -> bool:
        """Whether a person stopped it by hand."""
        return self.spec is not None and self.spec.get("held") is True

    @property
    def pid_is_damaged(self) -> bool:
        """Whether there is a pid file that cannot be believed."""
        return self.pid is None and any("pid.json" in problem.where for problem in self.problems)


def read_records(engine: str, folder: EngineDir) -> EngineRecords:
    """Read what is there. A damaged record is a warning: the kernel is the truth, records only help to recognise.

    Raises NodeError for a folder that is a link, another user's, or open to others: nothing in it is believed.
    """
    check_private(folder.path)
    problems: list[Diagnostic] = []

    def read(name: str) -> Document | None:
        try:
            return read_json(folder.file(name), lambda found: found.get("format_version") == FORMAT_VERSION)
        except ValueError as reason:
            problems.append(_set_aside(folder.file(name), str(reason)))
            return None

    def typed(name: str, build: Any) -> Any:
        found = read(name)
        try:
            return None if found is None else build(found)
        except StrangerError as reason:
            problems.append(_set_aside(folder.file(name), str(reason)))
            return None
        except (KeyError, TypeError, ValueError):
            problems.append(_set_aside(folder.file(name), "a field is missing or of another kind"))
            return None

    spec = typed("spec.json", _spec_record)
    launch = typed("launch.json", _launch_record)
    pid = typed("pid.json", _pid_record)
    phase = typed("phase.json", _phase_record)
    exits = typed("exits.json", _exit_records) or ()
    return EngineRecords(engine, spec, launch, pid, phase, exits, tuple(problems))


def last_exit_of(records: EngineRecords) -> tuple[LastExit, tuple[str, ...]]:
    """The newest entry of the exit history, and the end of its log."""
    if not records.exits:
        return LastExit(), ()
    entry = records.exits[-1]
    lines = tuple(str(entry.get("tail", "")).splitlines()[-TAIL_LINES:])
    return LastExit(entry.get("code"), entry.get("signal"), entry.get("at"), entry.get("cause") or None), lines


def _spec_record(found: Document) -> Document:
    if not isinstance(found["document"], dict) or not isinstance(found["bookkeeping"], dict):
        raise TypeError("a spec is made of mappings")
    return found


def _launch_record(found: Document) -> Document:
    if not found["id"] or not found["document"]["argv"]:
        raise ValueError("a launch has an id and a command")
    return found


def _exit_records(found: Document) -> tuple[Document, ...]:
    if not all(isinstance(entry, dict) for entry in found["exits"]):
        raise TypeError("an exit is a mapping")
    return tuple(found["exits"])


def _pid_record(found: Document) -> PidRecord:
    leader = ProcessId(int(found["pid"]), int(found["ticks"]))
    if leader.pid <= 1:
        raise ValueError("pid 0 and 1 are nobody's engine")
    if _names_a_stranger(leader, str(found["launch"]), found.get("cmdline_digest")):
        raise StrangerError(f"process {leader.pid} was not started by llmgw as this engine; it is a stranger")
    members = tuple(ProcessId(int(pid), int(ticks)) for pid, ticks in found["members"])
    return PidRecord(
        str(found["boot_id"]), leader, int(found["uid"]), str(found["launch"]), members, bool(found["was_ready"])
    )


def _names_a_stranger(leader: ProcessId, launch: str, fingerprint: str | None) -> bool:
    """Whether the live process of that pid and start is another one than was started: by its mark and command line.

    A title that changed is no disproof while the mark is there, nor a mark that was erased.
    """
    if fingerprint is None or not is_alive(leader) or not environment_lacks(leader.pid, f"{LAUNCH_VARIABLE}={launch}"):
        return False
    return command_digest(leader.pid) != fingerprint


def _phase_record(found: Document) -> PhaseRecord:
    supervisor = ProcessId(int(found["supervisor"]["pid"]), int(found["supervisor"]["ticks"]))
    return PhaseRecord(
        str(found["boot_id"]),
        supervisor,
        Phase(found["phase"]),
        str(found["since"]),
        str(found["detail"]),
        int(found["restarts"]),
        str(found["launch"]),
        None if found.get("load_seconds") is None else float(found["load_seconds"]),
    )


def _set_aside(path: str, reason: str) -> Diagnostic:
    return Diagnostic(
        Severity.WARNING, "record-set-aside", path, f"not believed: {reason}", "the next apply writes it anew"
    )
