"""Records on disk: old or new, never half, private, and never through a link."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host import files
from tests.fakes.disk import full_disk
from tests.fakes.users import NOBODY, root_only

PACKAGE = str(Path(files.__file__).parents[2])


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "private"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("unharmed")
    return path


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


# -- directories


def test_a_directory_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    files.private_directory(str(tmp_path / "a"))
    assert mode_of(tmp_path / "a") == 0o700
    files.private_directory(str(tmp_path / "a"))


def test_parents_are_made(tmp_path: Path) -> None:
    files.private_directory(str(tmp_path / "a" / "b" / "c"))
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_what_is_not_there_is_nothing_to_refuse(tmp_path: Path) -> None:
    files.check_private(str(tmp_path / "absent"))


@pytest.mark.parametrize("check", [files.private_directory, files.check_private])
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (0o770, r"others may write to it \(mode 0770\); chmod 0700 it first"),
        (0o702, r"others may write to it \(mode 0702\)"),
        (0o777, r"others may write to it \(mode 0777\)"),
    ],
    ids=["by-the-group", "by-the-world", "by-all"],
)
def test_a_directory_that_others_may_write_to_is_refused(folder: Path, check: object, mode: int, words: str) -> None:
    folder.chmod(mode)
    with pytest.raises(NodeError, match=words):
        check(str(folder))  # type: ignore[operator]


@root_only
def test_another_users_directory_is_refused(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(NodeError, match="it belongs to uid 65534, not to 0"):
        files.private_directory(str(folder))


def test_a_link_to_a_directory_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(NodeError, match=r"cannot use .*/link: it is a symbolic link"):
        files.private_directory(str(tmp_path / "link"))


def test_a_file_in_place_of_a_directory_is_refused(victim: Path) -> None:
    with pytest.raises(NodeError, match=r"cannot use .*/victim: it is not a directory"):
        files.private_directory(str(victim))
    with pytest.raises(NodeError, match=r"cannot make the directory .*/victim/below"):
        files.private_directory(str(victim / "below"))
    assert victim.read_text() == "unharmed"


# -- writing


def test_a_file_is_private_whatever_the_umask(folder: Path, umask: int) -> None:
    files.write_atomic(str(folder / "record"), b"one")
    files.write_atomic(str(folder / "record"), b"two")
    assert (mode_of(folder / "record"), (folder / "record").read_bytes()) == (0o600, b"two")
    assert os.listdir(folder) == ["record"]


@pytest.mark.parametrize("kind", ["symlink", "hard link", "fifo"])
@pytest.mark.parametrize("planted_at", ["record", "record.{pid}.tmp"])
def test_what_is_planted_where_a_record_goes_is_replaced_and_its_target_unharmed(
    folder: Path, victim: Path, kind: str, planted_at: str
) -> None:
    plant(folder / planted_at.format(pid=os.getpid()), victim, kind)
    files.write_atomic(str(folder / "record"), b"mine")
    assert (folder / "record").read_bytes() == b"mine"
    assert (folder / "record").lstat().st_nlink == 1
    assert victim.read_text() == "unharmed"
    assert os.listdir(folder) == ["record"]


def plant(path: Path, victim: Path, kind: str) -> None:
    if kind == "symlink":
        path.symlink_to(victim)
    elif kind == "hard link":
        path.hardlink_to(victim)
    else:
        os.mkfifo(path)


def test_json_is_written_the_same_for_the_same(folder: Path) -> None:
    files.write_json(str(folder / "record"), {"b": [1, None], "a": "ä"})
    assert (folder / "record").read_bytes() == b'{"a":"\\u00e4","b":[1,null]}\n'


def test_a_folder_that_is_gone_is_an_error_in_words(folder: Path) -> None:
    with pytest.raises(NodeError, match=r"cannot write .*/gone/record: No such file or directory"):
        files.write_atomic(str(folder / "gone" / "record"), b"")


def test_on_a_full_disk_the_old_record_stays_and_nothing_is_left_over() -> None:
    with full_disk() as disk:
        files.write_atomic(str(disk / "record"), b"old")
        disk.fill()
        with pytest.raises(NodeError, match=r"cannot write .*/record: No space left on device"):
            files.write_atomic(str(disk / "record"), b"x" * 10_000)
        assert sorted(os.listdir(disk)) == ["ballast", "record"]
        assert (disk / "record").read_bytes() == b"old"


WRITER = """
import sys; sys.path.insert(0, sys.argv[1])
from llmgw_reconcile.host.files import write_json
write_json(sys.argv[2], {"text": "a" * 30000})
print("ready", flush=True)
while True:
    write_json(sys.argv[2], {"text": "b" * 30000})
    write_json(sys.argv[2], {"text": "a" * 30000})
"""


def test_a_reader_sees_whole_records_while_they_are_replaced_and_after_a_kill(folder: Path) -> None:
    path = str(folder / "record")
    seen = set()
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-ISc", WRITER, PACKAGE, path], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        for _ in range(200):
            seen.add(json.dumps(files.read_json(path)))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        seen.add(json.dumps(files.read_json(path)))
    assert seen == {json.dumps({"text": letter * 30_000}) for letter in "ab"}


# -- reading


def test_what_was_written_is_read(folder: Path) -> None:
    files.write_json(str(folder / "record"), {"a": 1})
    assert files.read_private(str(folder / "record")) == b'{"a":1}\n'
    assert files.read_json(str(folder / "record")) == {"a": 1}


def test_what_is_absent_is_none(folder: Path) -> None:
    assert files.read_private(str(folder / "record")) is None
    assert files.read_json(str(folder / "record")) is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("symlink", "it is a symbolic link"),
        ("hard link", r"it has a second name \(hard link\)"),
        ("fifo", "it is not a plain file"),
    ],
)
def test_a_planted_record_is_not_believed(folder: Path, victim: Path, kind: str, reason: str) -> None:
    plant(folder / "record", victim, kind)
    with pytest.raises(ValueError, match=reason):
        files.read_private(str(folder / "record"))


def test_a_folder_or_a_device_is_no_record(folder: Path) -> None:
    (folder / "record").mkdir()
    for path in (str(folder / "record"), "/dev/zero"):
        with pytest.raises(ValueError, match="it is not a plain file"):
            files.read_private(path)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666], ids=oct)
def test_a_record_that_others_may_write_to_is_not_believed(folder: Path, mode: int) -> None:
    files.write_atomic(str(folder / "record"), b"{}")
    (folder / "record").chmod(mode)
    with pytest.raises(ValueError, match="others may write to it"):
        files.read_private(str(folder / "record"))


@root_only
def test_another_users_record_is_not_believed(folder: Path) -> None:
    files.write_atomic(str(folder / "record"), b"{}")
    os.chown(folder / "record", NOBODY, NOBODY)
    with pytest.raises(ValueError, match="it belongs to uid 65534"):
        files.read_private(str(folder / "record"))


def test_a_record_has_a_limit(folder: Path) -> None:
    files.write_atomic(str(folder / "record"), b"12345")
    assert files.read_private(str(folder / "record"), limit=5) == b"12345"
    with pytest.raises(ValueError, match="it is larger than 4 bytes"):
        files.read_private(str(folder / "record"), limit=4)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b"\0" * 4096, "it is empty", id="nul-filled"),
        pytest.param(b'{"pid": 1', "it is not JSON", id="half"),
        pytest.param(b'{"pid": 1\0\0\0\0', "it is not JSON", id="half-and-nul-filled"),
        pytest.param(b"\x80\xff\x00", "it is not JSON", id="binary"),
        pytest.param(b"[" * 100_000, "it is not JSON", id="nested-without-end"),
        pytest.param(b'{"pid": ' + b"9" * 5000 + b"}", "it is not JSON", id="a-number-of-5000-digits"),
        pytest.param(b"[1]", "it is not a record of this version", id="a-list"),
        pytest.param(b'{"format_version": 2}', "it is not a record of this version", id="a-newer-version"),
    ],
)
def test_a_damaged_record_is_a_reason_and_no_traceback(folder: Path, data: bytes, reason: str) -> None:
    files.write_atomic(str(folder / "record"), data)
    with pytest.raises(ValueError, match=reason):
        files.read_json(str(folder / "record"), lambda found: found.get("format_version") == 1)


# -- removing


def test_a_tree_is_removed_and_links_in_it_are_not_followed(folder: Path, victim: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("unharmed")
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "record").write_text("")
    (folder / "deep" / "file").symlink_to(victim)
    (folder / "deep" / "folder").symlink_to(outside)
    os.mkfifo(folder / "fifo")
    files.remove_tree(str(folder))
    assert not folder.exists()
    assert victim.read_text() == (outside / "file").read_text() == "unharmed"


def test_a_tree_that_is_a_link_is_unlinked_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "file").write_text("unharmed")
    (tmp_path / "link").symlink_to(folder)
    files.remove_tree(str(tmp_path / "link"))
    assert not (tmp_path / "link").is_symlink()
    assert (folder / "file").read_text() == "unharmed"


def test_removing_what_is_not_there_is_fine(tmp_path: Path) -> None:
    files.remove_tree(str(tmp_path / "absent"))


def test_what_a_killed_writer_left_is_cleared_and_what_another_writes_now_is_not(folder: Path) -> None:
    for name in ("record", "record.4194305.tmp", f"record.{os.getpid()}.tmp"):
        (folder / name).write_text("")
    files.remove_temporaries(str(folder))
    assert sorted(os.listdir(folder)) == ["record", f"record.{os.getpid()}.tmp"]


def test_nothing_is_cleared_in_what_is_no_folder_of_ours(folder: Path, tmp_path: Path, victim: Path) -> None:
    (folder / "record.4194305.tmp").write_text("unharmed")
    (tmp_path / "link").symlink_to(folder)
    files.remove_temporaries(str(tmp_path / "link"))
    files.remove_temporaries(str(victim))
    assert os.listdir(folder) == ["record.4194305.tmp"]
