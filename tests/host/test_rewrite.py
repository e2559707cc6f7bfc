"""A person's file is replaced whole, keeps its mode, and is never reached through a link."""

from __future__ import annotations

import os
import stat

import pytest

from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.host.rewrite import rewrite, write_new, write_whole


def test_the_content_is_replaced_and_the_mode_stays(tmp_path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text("old")
    path.chmod(0o640)
    rewrite(str(path), b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["node.yaml"]


def test_a_link_is_refused_and_its_target_named(tmp_path) -> None:
    target, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(RefusedError, match=f"symbolic link; name the file behind it, {target}"):
        rewrite(str(link), b"new")
    assert target.read_text() == "old"
    assert link.is_symlink()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda path: path.mkdir(), "not a plain file", id="directory"),
        pytest.param(lambda path: os.mkfifo(path), "not a plain file", id="pipe"),
        pytest.param(lambda path: None, "No such file", id="nothing"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path, make, words: str) -> None:
    make(tmp_path / "x")
    with pytest.raises(RefusedError, match=words):
        rewrite(str(tmp_path / "x"), b"new")


def test_a_write_that_fails_leaves_the_file_and_nothing_beside_it(tmp_path, monkeypatch) -> None:
    path = tmp_path / "node.yaml"
    path.write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RefusedError, match="No space left on device"):
        rewrite(str(path), b"new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["node.yaml"]


def test_a_new_file_is_written_and_an_old_one_never_is(tmp_path) -> None:
    path = tmp_path / "node.yaml"
    write_new(str(path), b"one")
    with pytest.raises(RefusedError, match="it exists already"):
        write_new(str(path), b"two")
    assert path.read_text() == "one"


def test_no_file_is_written_through_a_dangling_link(tmp_path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(RefusedError, match="it exists already"):
        write_new(str(tmp_path / "link"), b"x")
    assert not (tmp_path / "victim").exists()


def test_a_file_is_written_whole_whether_or_not_it_was_there(tmp_path) -> None:
    path = tmp_path / "routes.conf"
    before = os.umask(0o022)
    try:
        write_whole(str(path), b"first")
    finally:
        os.umask(before)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("first", 0o644)
    path.chmod(0o640)
    write_whole(str(path), b"second")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("second", 0o640)
    assert os.listdir(tmp_path) == ["routes.conf"]


def test_a_file_that_cannot_be_put_in_place_is_refused_and_leaves_nothing(tmp_path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "victim")
    with pytest.raises(RefusedError, match="it is a symbolic link"):
        write_whole(str(tmp_path / "dangling"), b"text")
    with pytest.raises(RefusedError, match=r"cannot write .*no/where\.conf: No such file or directory"):
        write_whole(str(tmp_path / "no/where.conf"), b"text")
    assert os.listdir(tmp_path) == ["dangling"]
