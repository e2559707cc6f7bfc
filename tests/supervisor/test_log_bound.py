"""A log stays bounded while it is written to, and its newest lines stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw_reconcile.supervisor import log_bound
from llmgw_reconcile.supervisor.log_bound import LogBound
from llmgw_reconcile.supervisor.wake import NEVER, Wake
from tests.fakes.disk import full_disk

BLOCK = 4096
LIMIT, HEAD, KEEP = 64 * BLOCK, 4 * BLOCK, 16 * BLOCK


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@pytest.fixture(params=["collapsed", "copied"])
def bound(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogBound]:
    if request.param == "copied":
        monkeypatch.setattr(log_bound, "collapse_range", lambda *_: False)
    made = LogBound(str(path), fresh=True, limit=LIMIT, head=HEAD, keep=KEEP)
    yield made
    made.close()


def lines(first: int, last: int) -> bytes:
    """Numbered lines of 16 bytes."""
    return b"".join(b"line %010d\n" % number for number in range(first, last))


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def test_a_short_log_is_left_alone(bound: LogBound, path: Path) -> None:
    append(path, lines(0, LIMIT // 16))
    bound.look()
    assert path.read_bytes() == lines(0, LIMIT // 16)


def test_of_a_long_log_the_head_and_the_newest_lines_stay(bound: LogBound, path: Path) -> None:
    count = LIMIT // 16 + 100
    append(path, lines(0, count))
    bound.look()
    data = path.read_bytes()
    assert data.startswith(lines(0, HEAD // 16))
    assert data.endswith(lines(count - (KEEP - BLOCK) // 16, count))
    assert len(data) < HEAD + KEEP + 2 * BLOCK


def test_whole_lines_are_kept(bound: LogBound, path: Path) -> None:
    append(path, lines(0, LIMIT // 16 + 100))
    bound.look()
    kept = [line for line in path.read_bytes().splitlines() if line and not line.startswith(b"[llmgw")]
    assert {len(line) for line in kept} == {15}
    numbers = [int(line.split()[1]) for line in kept]
    assert numbers == sorted(numbers)


def test_a_cut_that_may_have_lost_lines_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_bound, "collapse_range", lambda *_: False)
    bound = LogBound(str(path), fresh=True, limit=LIMIT, head=HEAD, keep=KEEP)
    append(path, lines(0, LIMIT))
    bound.look()
    bound.close()
    assert path.read_bytes().count(b"[llmgw: the log was cut here; lines written in that instant may be lost]") == 1


def test_a_log_that_is_larger_than_one_call_can_cut_is_cut_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_bound, "LARGEST_CUT", 8 * BLOCK)
    bound = LogBound(str(path), fresh=True, limit=LIMIT, head=HEAD, keep=KEEP)
    append(path, lines(0, 10 * LIMIT // 16))
    bound.look()
    assert bound.size < HEAD + KEEP + 2 * BLOCK
    assert path.read_bytes().endswith(lines(10 * LIMIT // 16 - 100, 10 * LIMIT // 16))
    bound.close()


def test_writers_in_append_mode_go_on_behind_a_cut(bound: LogBound, path: Path) -> None:
    with open(path, "ab", buffering=0) as writer:
        writer.write(lines(0, LIMIT // 16 + 1))
        bound.look()
        writer.write(b"behind the cut\n")
    assert path.read_bytes().endswith(lines(LIMIT // 16, LIMIT // 16 + 1) + b"behind the cut\n")


WRITER = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
line, left = b"x" * 99 + b"\\n", int(sys.argv[2])
while left > 0:
    left -= os.write(fd, line * 600)
os.write(fd, b"the newest line\\n")
"""


def test_a_fast_writer_is_bounded_and_not_lost(bound: LogBound, path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-ISc", WRITER, str(path), str(100 << 20)])
    largest = 0
    while writer.poll() is None:
        largest = max(largest, bound.size)
        time.sleep(min(bound.look(), 0.002))
    bound.look()
    assert writer.returncode == 0
    assert largest < 48 << 20  # far less than was written, on a machine that is busy with other things too
    assert bound.size <= LIMIT
    assert path.read_bytes().endswith(b"the newest line\n")
    assert os.stat(path).st_blocks * 512 <= LIMIT + 2 * BLOCK  # no sparse giant


def test_the_next_look_comes_the_sooner_the_less_room_is_left(bound: LogBound, path: Path) -> None:
    assert bound.look() == log_bound.SHORTEST_PAUSE  # this log is small
    roomy = LogBound(str(path), fresh=False, limit=32 << 20)
    assert roomy.look() == (32 << 20) / (1 << 30)
    roomy.close()


def test_a_deleted_log_is_bounded_still(bound: LogBound, path: Path) -> None:
    with open(path, "ab", buffering=0) as writer:
        path.unlink()
        writer.write(lines(0, LIMIT))
        bound.look()
        assert bound.size < HEAD + KEEP + 2 * BLOCK
        assert bound.tail(16) == b"line %010d\n" % (LIMIT - 1)


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo", "device"])
def test_a_planted_log_is_refused_and_its_target_unharmed(tmp_path: Path, path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("unharmed")
    if kind == "symlink":
        path.symlink_to(victim)
    elif kind == "hard link":
        path.hardlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path = Path("/dev/null")
    for fresh in (True, False):
        with pytest.raises(OSError):
            LogBound(str(path), fresh=fresh)
    assert victim.read_text() == "unharmed"


def test_a_fresh_log_must_not_be_there_yet(path: Path) -> None:
    path.write_text("of another run")
    with pytest.raises(FileExistsError):
        LogBound(str(path), fresh=True)


def test_a_full_disk_is_no_exception() -> None:
    with full_disk() as disk:
        path = disk / "engine.log"
        bound = LogBound(str(path), fresh=True, limit=8 * BLOCK, head=BLOCK, keep=4 * BLOCK)
        append(path, lines(0, 3 * BLOCK // 16 * 4))
        disk.fill()
        bound.look()
        assert bound.size < 8 * BLOCK
        disk.clear()
        append(path, lines(0, 3 * BLOCK // 16 * 4))
        bound.look()
        assert bound.size < 8 * BLOCK
        bound.close()


@pytest.mark.parametrize(
    ("content", "count", "expected"),
    [
        pytest.param(b"one\ntwo\n", 100, b"one\ntwo\n", id="all-of-a-short-log"),
        pytest.param(b"secret-half\ntwo\n", 8, b"two\n", id="no-half-line-which-may-be-half-a-secret"),
        pytest.param(b"10%\r20%\r30%", 6, b"30%", id="parts-of-a-progress-bar-are-lines-too"),
        pytest.param(b"xxxxxxxxxx", 4, b"xxxx", id="one-endless-line"),
        pytest.param(b"", 4, b"", id="nothing"),
    ],
)
def test_the_tail_is_of_whole_lines(path: Path, content: bytes, count: int, expected: bytes) -> None:
    bound = LogBound(str(path), fresh=True)
    append(path, content)
    assert bound.tail(count) == expected
    bound.close()


@pytest.mark.parametrize(
    ("offset", "count", "expected"),
    [(0, 99, b"0123456789"), (7, 99, b"789"), (0, 4, b"6789"), (10, 99, b""), (99, 99, b"0123456789")],
    ids=["all", "the-rest", "the-newest-of-it", "nothing", "all-that-a-cut-left"],
)
def test_what_is_new_is_read_from_an_offset(path: Path, offset: int, count: int, expected: bytes) -> None:
    bound = LogBound(str(path), fresh=True)
    append(path, b"0123456789")
    assert bound.since(offset, count) == expected
    bound.close()


def test_a_write_wakes_once_each_time_it_was_asked_for(path: Path, wake: Wake) -> None:
    bound = LogBound(str(path), fresh=True)
    bound.arm()
    append(path, b"one")
    wake.wait(NEVER)
    assert wake.saw(signal.SIGIO)
    append(path, b"two")
    wake.wait(time.monotonic() + 0.05)
    assert not wake.saw(signal.SIGIO)
    bound.arm()
    append(path, b"three")
    wake.wait(NEVER)
    assert wake.saw(signal.SIGIO)
    bound.close()


def test_a_write_to_a_deleted_log_wakes_too(path: Path, wake: Wake) -> None:
    bound = LogBound(str(path), fresh=True)
    with open(path, "ab", buffering=0) as writer:
        path.unlink()
        wake.wait(time.monotonic())
        wake.saw(signal.SIGIO)
        bound.arm()
        writer.write(b"one")
        wake.wait(time.monotonic() + 5)
    assert wake.saw(signal.SIGIO)
    bound.close()
