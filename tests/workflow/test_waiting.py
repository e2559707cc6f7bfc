"""What is said of an engine that is waited for, and of one that did not get ready."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.host.proc import boot_id, identify
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.workflow.waiting import Failure, Watch
from tests.fakes.clock import FakeClock


class Records:
    """The folder of one engine, written as its supervisor would."""

    def __init__(self, root: Path) -> None:
        self.folder = EngineDir(str(root / "chat@0"))
        os.mkdir(self.folder.path, 0o700)
        os.mkdir(self.folder.log_dir, 0o700)
        self.clock = FakeClock()

    def write(self, name: str, **fields: Any) -> None:
        path = Path(self.folder.file(name))
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"format_version": 1} | fields))
        fresh.chmod(0o600)
        fresh.rename(path)

    def phase(self, phase: Phase, detail: str = "", *, supervisor: int | None = None, **fields: Any) -> None:
        identity = identify(supervisor or os.getpid())
        assert identity is not None
        common = {"boot_id": boot_id(), "supervisor": identity._asdict(), "since": "2026-01-01T00:00:00Z"}
        rest = {"phase": str(phase), "detail": detail, "restarts": 0, "launch": "0123456789abcdef"}
        self.write("phase.json", **common | rest | fields)

    def exits(self, **entry: Any) -> None:
        common = {"launch": "0123456789abcdef", "code": None, "signal": None, "cause": "", "hint": "", "meaning": ""}
        self.write("exits.json", exits=[common | entry])

    def watch(self, **environ: str) -> Watch:
        return Watch("chat@0", self.folder, clock=self.clock, began=self.clock.now, environ=environ)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


@pytest.fixture
def stranger() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-ISc", "import time; time.sleep(60)"])
    yield process.pid
    process.kill()
    process.wait()


def test_before_its_supervisor_has_said_anything_it_starts(records: Records) -> None:
    assert records.watch().look()[:3] == ("chat@0", Phase.STARTING, "")


def test_a_phase_is_seen_as_soon_as_it_is_published(records: Records) -> None:
    watch = records.watch()
    for phase in (Phase.STARTING, Phase.LOADING, Phase.READY, Phase.BACKOFF):
        records.phase(phase, f"in {phase}")
        assert watch.look()[1:3] == (phase, f"in {phase}")


def test_two_phases_within_one_tick_of_the_clock_are_two(records: Records) -> None:
    watch = records.watch()
    records.phase(Phase.LOADING)
    first = os.stat(records.folder.file("phase.json")).st_mtime_ns
    watch.look()
    records.phase(Phase.READY)
    os.utime(records.folder.file("phase.json"), ns=(first, first))
    assert watch.look().phase is Phase.READY


def test_the_newest_line_of_its_log_and_the_time_go_along(records: Records) -> None:
    records.phase(Phase.LOADING)
    Path(records.folder.log).write_text("loading shards: 3 of 9\n")
    watch = records.watch()
    records.clock.sleep(7.5)
    sighting = watch.look()
    assert (sighting.seconds, sighting.log_line) == (7.5, "loading shards: 3 of 9")


def test_a_secret_in_the_newest_line_is_masked(records: Records) -> None:
    records.write("launch.json", id="01", document={"argv": ["x"], "env": {"HF_TOKEN": {"env": "TOKEN"}}})
    records.phase(Phase.LOADING)
    Path(records.folder.log).write_text("using canary-0b1c2\n")
    assert records.watch(TOKEN="canary-0b1c2").look().log_line == "using (secret)"


def test_a_supervisor_that_is_gone_is_noticed_within_a_second(records: Records, stranger: int) -> None:
    records.phase(Phase.LOADING, supervisor=stranger)
    watch = records.watch()
    assert watch.look().phase is Phase.LOADING
    os.kill(stranger, 9)
    os.waitid(os.P_PID, stranger, os.WEXITED | os.WNOWAIT)
    records.clock.sleep(1.0)
    assert watch.look()[1:3] == (Phase.FAILED, "its supervisor is gone")
    assert watch.failure() == Failure("its supervisor is gone", hint="the next apply starts it afresh")


def test_an_engine_that_outlives_its_supervisor_is_known_to_live(records: Records, stranger: int) -> None:
    leader = identify(stranger)
    assert leader is not None
    records.phase(Phase.LOADING, supervisor=os.getpid(), boot_id="another")
    mine = {"boot_id": boot_id(), "uid": os.geteuid(), "launch": "01", "members": [list(leader)], "was_ready": False}
    records.write("pid.json", **mine, **leader._asdict())
    failure = records.watch().failure()
    assert failure.lives
    assert failure.hint == "the engine itself lives on: the next apply adopts it"


@pytest.mark.parametrize(
    ("phase", "detail", "entry", "expected"),
    [
        pytest.param(
            Phase.FAILED,
            "ValueError: no room",
            {"code": 7, "cause": "ValueError: no room", "tail": "one\ntwo\n"},
            Failure("exit code 7", "ValueError: no room", "", ("one", "two")),
            id="exit-code-cause-and-log",
        ),
        pytest.param(
            Phase.FAILED,
            "killed from outside",
            {"signal": "SIGKILL", "cause": "killed from outside", "meaning": "out of memory", "hint": "add memory"},
            Failure("SIGKILL: out of memory", "killed from outside", "add memory"),
            id="a-signal-with-a-meaning-and-a-hint",
        ),
        pytest.param(
            Phase.FAILED,
            "not ready within 3 s (/health answers 503)",
            {"cause": "not ready within 3 s (/health answers 503)"},
            Failure("not ready within 3 s (/health answers 503)", "not ready within 3 s (/health answers 503)"),
            id="a-budget-that-was-used-up",
        ),
        pytest.param(
            Phase.FAILED,
            "unkillable: 4711 live on after SIGKILL",
            {"launch": "another", "code": 3},
            Failure("failed", "unkillable: 4711 live on after SIGKILL"),
            id="a-history-of-another-launch-is-not-believed",
        ),
        pytest.param(Phase.HELD, "", {"code": 3}, Failure("held meanwhile"), id="held"),
        pytest.param(Phase.STOPPED, "", {}, Failure("stopped meanwhile"), id="stopped"),
    ],
)
def test_why_it_did_not_get_ready(
    records: Records, phase: Phase, detail: str, entry: dict[str, Any], expected: Failure
) -> None:
    records.phase(phase, detail)
    records.exits(**entry)
    watch = records.watch()
    assert watch.look().phase is phase
    assert watch.failure() == expected


def test_no_more_of_the_log_than_people_read(records: Records) -> None:
    records.phase(Phase.FAILED)
    records.exits(code=1, tail="\n".join(f"line {number}" for number in range(500)) + "\n\x1b[31mred\n")
    tail = records.watch().failure().log_tail
    assert (len(tail), tail[-1]) == (20, "red")
