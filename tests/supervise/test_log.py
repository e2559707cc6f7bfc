"""A log from its end and on: bounded, whole lines, secrets and escapes gone, nothing lost between two files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.supervise.log import CHUNK, CUT, LINE_LIMIT, LogReader, newest_line


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "engine.log"
    path.write_bytes(b"one\ntwo\nthree\n")
    return path


def reader(log: Path, *secrets: str) -> LogReader:
    return LogReader(str(log), secrets)


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(None, ["one", "two", "three"], id="all"),
        pytest.param(2, ["two", "three"], id="two"),
        pytest.param(9, ["one", "two", "three"], id="more-than-there-are"),
        pytest.param(0, [], id="none"),
    ],
)
def test_the_last_lines(log: Path, count: int | None, expected: list[str]) -> None:
    assert reader(log).tail(count) == expected


def test_no_log_is_none_and_an_empty_one_has_no_lines(tmp_path: Path) -> None:
    assert reader(tmp_path / "nowhere").tail(5) is None
    (tmp_path / "empty").touch()
    assert reader(tmp_path / "empty").tail(5) == []


def test_lines_across_the_chunks_in_which_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    lines = [f"line {number} {'x' * 300}" for number in range(3 * CHUNK // 300)]
    path.write_text("\n".join(lines) + "\n")
    assert reader(path).tail(2000) == lines[-2000:]


def test_a_line_without_an_end_is_cut_and_a_progress_bar_shows_its_last_state(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"x" * (LINE_LIMIT + 100) + b"\n" + b"10%\r20%\r30%\r\n")
    long, bar = reader(path).tail(None) or []
    assert (len(long), long[-3:]) == (LINE_LIMIT, "...")
    assert bar == "30%"


def test_more_gives_whole_lines_only(log: Path) -> None:
    follow = reader(log)
    follow.tail(0)
    assert follow.more() == []
    append(log, b"fo")
    assert follow.more() == []
    append(log, b"ur\nfive\nsi")
    assert follow.more() == ["four", "five"]
    append(log, b"x\n")
    assert follow.more() == ["six"]


def test_a_line_that_never_ends_is_shown_in_pieces(log: Path) -> None:
    follow = reader(log)
    follow.tail(0)
    append(log, b"x" * (3 * CHUNK))
    pieces = [piece for _ in range(4) for piece in follow.more()]
    assert pieces
    assert all(set(piece.removesuffix("...")) == {"x"} for piece in pieces)


def test_the_old_file_is_read_out_before_the_new_one(log: Path) -> None:
    follow = reader(log)
    follow.tail(0)
    append(log, b"last words\nand half a")
    log.rename(log.with_name("previous.log"))
    log.write_bytes(b"hello\n")
    assert follow.more() == ["last words"]
    assert follow.more() == ["and half a"]
    assert follow.more() == ["hello"]


def test_a_log_that_comes_later_is_followed_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    follow = reader(path)
    assert follow.tail(5) is None
    assert follow.more() == []
    path.write_bytes(b"hello\n")
    assert follow.more() == ["hello"]


def test_a_log_that_was_cut_says_so_and_goes_on(log: Path) -> None:
    follow = reader(log)
    follow.tail(0)
    os.truncate(log, 4)
    assert follow.more() == [CUT]
    append(log, b"next\n")
    assert follow.more() == ["next"]


def test_secrets_are_masked_also_where_a_read_begins_in_one(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"key canary-1234567890 is used\n" * 100)
    assert set(reader(path, "canary-1234567890").tail(None) or []) == {"key (secret) is used"}
    path.write_bytes(b"x canary-1234567890\n" * (9 << 20 >> 4))
    text = "\n".join(reader(path, "canary-1234567890").tail(None) or [])
    assert "1234567890" not in text


def test_escapes_and_broken_characters_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"\x1b[31mred\x1b[0m \xff \x07\n")
    assert reader(path).tail(1) == ["red \ufffd \\x07"]


def test_a_link_and_a_fifo_are_refused(tmp_path: Path) -> None:
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to("/etc/passwd")
    os.mkfifo(fifo)
    with pytest.raises(NodeError, match=r"cannot read .*link"):
        reader(link).tail(1)
    with pytest.raises(NodeError, match="it is not a plain file"):
        reader(fifo).tail(1)
    assert newest_line(str(link), ()) == newest_line(str(fifo), ()) == ""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b"one\ntwo\n\n  \n", "two", id="blank-lines-are-passed-over"),
        pytest.param(b"loading 1%\rloading 2%\r", "loading 2%", id="a-progress-bar"),
        pytest.param(b"half", "half", id="a-line-without-its-end"),
        pytest.param(b"key hunter2-hunter2 used\n", "key (secret) used", id="a-secret"),
    ],
)
def test_the_newest_line(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(data)
    assert newest_line(str(path), ("hunter2-hunter2",)) == expected
