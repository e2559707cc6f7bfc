"""Lines are added whole to two files of bounded size, and read back whatever happened to the files."""

from __future__ import annotations

import fcntl
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host import journal
from llmgw_reconcile.host.journal import JournalReader, append_line


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal.jsonl")


def read(path: str) -> list[dict[str, object]]:
    reader = JournalReader(path)
    try:
        return reader.more()
    finally:
        reader.close()


def test_a_line_is_one_json_object_in_a_private_file(path: str) -> None:
    before = os.umask(0)
    try:
        append_line(path, {"engine": "chat@0", "detail": "ready\nfor all: é"})
    finally:
        os.umask(before)
    assert Path(path).read_bytes() == '{"engine":"chat@0","detail":"ready\\nfor all: é"}\n'.encode()
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_journal_that_is_not_there_yet_has_no_entries(path: str) -> None:
    assert read(path) == []


@pytest.mark.parametrize(
    ("torn", "kept"),
    [
        pytest.param(b'{"n":1}\n{"n":2', [{"n": 1}, {"n": 3}], id="cut in the middle of a line"),
        pytest.param(b'{"n":1}\n\0\0\0\0', [{"n": 1}, {"n": 3}], id="blocks that were never written"),
        pytest.param(b'{"n":1}', [{"n": 1}, {"n": 3}], id="without the line's end"),
        pytest.param(b'{"n":1}\n[2]\n\xff\xfe\n', [{"n": 1}, {"n": 3}], id="lines that are no objects"),
    ],
)
def test_a_torn_last_line_costs_that_line_alone(path: str, torn: bytes, kept: list[dict[str, int]]) -> None:
    Path(path).write_bytes(torn)
    append_line(path, {"n": 3})
    assert read(path) == kept


def test_a_torn_line_is_not_shown_before_it_is_closed_off(path: str) -> None:
    Path(path).write_bytes(b'{"n":1}\n{"n":')
    assert read(path) == [{"n": 1}]


def test_a_full_page_is_turned_and_the_one_before_falls_away(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FILE_LIMIT", 40)  # two lines of `{"n":100}`, which have ten bytes, and two more
    for number in range(100, 110):
        append_line(path, {"n": number})
    assert Path(path + ".1").read_text() == "".join(f'{{"n":{number}}}\n' for number in range(104, 108))
    assert Path(path).read_text() == '{"n":108}\n{"n":109}\n'
    assert [entry["n"] for entry in read(path)] == [104, 105, 106, 107, 108, 109]


def test_the_journal_of_a_busy_year_stays_within_eight_mebibytes(path: str) -> None:
    filler = "x" * 30_000
    for number in range(300):
        append_line(path, {"n": number, "detail": filler})
    sizes = [os.path.getsize(path), os.path.getsize(path + ".1")]
    assert max(sizes) <= 4 << 20
    assert sorted(os.listdir(os.path.dirname(path))) == ["journal.jsonl", "journal.jsonl.1"]
    assert read(path)[-1]["n"] == 299


def test_an_entry_that_is_too_large_is_refused_and_leaves_the_journal_as_it_was(path: str) -> None:
    append_line(path, {"n": 1})
    with pytest.raises(NodeError, match="the entry is larger than 32768 bytes"):
        append_line(path, {"detail": "x" * 40_000})
    assert read(path) == [{"n": 1}]


def test_a_disk_that_fills_up_is_an_error_and_costs_one_line(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append_line(path, {"n": 1})
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
        with pytest.raises(NodeError, match="No space left on device"):
            append_line(path, {"n": 2})
    append_line(path, {"n": 3})
    assert read(path) == [{"n": 1}, {"n": 3}]


def test_writers_side_by_side_lose_no_line_and_tear_none(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FILE_LIMIT", 20_000)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append_line(path, {"n": number, "detail": "x" * 50}), range(400)))
    whole = Path(path + ".1").read_bytes() + Path(path).read_bytes()
    assert len({json.loads(line)["n"] for line in whole.splitlines()}) == whole.count(b"\n") > 250


def test_a_lock_that_is_never_let_go_ends_in_an_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LOCK_SECONDS", 0.05)
    append_line(path, {"n": 1})
    with open(path) as suspended:
        fcntl.flock(suspended, fcntl.LOCK_EX)
        with pytest.raises(NodeError, match="another llmgw has locked it for more than"):
            append_line(path, {"n": 2})


def link(path: str, victim: Path) -> None:
    os.symlink(victim, path)


def hard_link(path: str, victim: Path) -> None:
    os.link(victim, path)


def fifo(path: str, victim: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [link, hard_link, fifo])
def test_nothing_is_written_through_what_is_not_a_file_of_ours(path: str, tmp_path: Path, plant: object) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    assert callable(plant)
    plant(path, victim)
    with pytest.raises(NodeError, match=r"cannot write .*journal\.jsonl"):
        append_line(path, {"n": 1})
    assert victim.read_text() == "untouched"


def test_what_is_added_later_is_read_on_across_the_turn_of_a_page(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FILE_LIMIT", 40)
    reader = JournalReader(path)
    assert reader.more() == []
    seen = []
    for number in range(100, 110):
        append_line(path, {"n": number})
        seen += [entry["n"] for entry in reader.more()]
    assert seen == list(range(100, 110))
    assert reader.more() == []
    reader.close()


def test_a_reader_that_comes_late_misses_nothing_that_is_kept(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FILE_LIMIT", 40)
    append_line(path, {"n": 100})
    reader = JournalReader(path)
    assert reader.more() == [{"n": 100}]
    for number in range(101, 106):  # the page is turned once while nobody reads
        append_line(path, {"n": number})
    assert [entry["n"] for entry in reader.more()] == [101, 102, 103, 104, 105]
    reader.close()
