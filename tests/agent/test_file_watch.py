"""A changed file is seen however it was written, once it has come to rest."""

from __future__ import annotations

import os

import pytest

from llmgw_reconcile.agent.file_watch import FileWatch
from tests.fakes.clock import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


def write_in_place(path):
    with path.open("r+") as file:
        file.write("TWO\n")


def rename_over(path):
    fresh = path.with_suffix(".new")
    fresh.write_text("two\n")
    fresh.rename(path)


def rename_away_and_write_anew(path):  # as vim does it with backupcopy=no
    path.rename(path.with_suffix(".bak"))
    path.write_text("two\n")


def remove_and_write_anew(path):  # as git does it in a checkout
    path.unlink()
    path.write_text("two\n")


def write_with_the_old_time(path):  # as rsync does it with --times
    found = path.stat()
    path.write_text("TWO\n")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def append(path):
    with path.open("a") as file:
        file.write("more\n")


def remove(path):
    path.unlink()


def seen_after(clock, watch, looks=4):
    found = []
    for _ in range(looks):
        clock.now = max(clock.now, watch.look_at)
        found.append(watch.look())
    return found


@pytest.mark.parametrize(
    "change",
    [
        write_in_place,
        rename_over,
        rename_away_and_write_anew,
        remove_and_write_anew,
        write_with_the_old_time,
        append,
        remove,
    ],
    ids=lambda change: change.__name__,
)
def test_a_change_is_seen_once(tmp_path, clock, change):
    path = tmp_path / "node.yaml"
    path.write_text("one\n")
    watch = FileWatch(clock, [str(path)])
    assert seen_after(clock, watch) == [False, False, False, False]
    change(path)
    assert seen_after(clock, watch) == [False, True, False, False]


def test_a_file_that_appears_is_seen(tmp_path, clock):
    path = tmp_path / "node.yaml"
    watch = FileWatch(clock, [str(path)])
    assert seen_after(clock, watch, 1) == [False]
    path.write_text("one\n")
    assert seen_after(clock, watch) == [False, True, False, False]


def test_another_target_of_a_link_is_seen(tmp_path, clock):
    (tmp_path / "one.yaml").write_text("one\n")
    (tmp_path / "two.yaml").write_text("two\n")
    path = tmp_path / "node.yaml"
    path.symlink_to("one.yaml")
    watch = FileWatch(clock, [str(path)])
    (tmp_path / "new").symlink_to("two.yaml")
    (tmp_path / "new").rename(path)
    assert seen_after(clock, watch) == [False, True, False, False]


def test_another_target_of_a_link_on_the_way_is_seen(tmp_path, clock):  # as kubelet exchanges `..data`
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "node.yaml").write_text("one\n")
    (tmp_path / "data").symlink_to("v1")
    watch = FileWatch(clock, [str(tmp_path / "data" / "node.yaml")])
    (tmp_path / "new").symlink_to("v2")
    (tmp_path / "new").rename(tmp_path / "data")
    assert seen_after(clock, watch) == [False, True, False, False]


def test_a_file_that_is_still_being_written_is_not_reported(clock):
    stamps = iter([(1,), (2,), (3,), (4,), (4,)])
    watch = FileWatch(clock, ["node.yaml"], stamp_of=lambda path: next(stamps))
    assert seen_after(clock, watch, 3) == [False, False, False]
    assert watch.is_settling
    assert seen_after(clock, watch, 1) == [True]
    assert not watch.is_settling


def test_a_file_that_never_rests_is_reported_after_three_seconds(clock):
    stamps = iter(range(100))
    watch = FileWatch(clock, ["node.yaml"], stamp_of=lambda path: (next(stamps),))
    began = clock.now
    while not watch.look():
        clock.now = watch.look_at
    assert 3.0 <= clock.now - began <= 3.3


def test_a_file_that_is_watched_on_keeps_its_stamp(clock):
    stamp = {"a": (1,), "b": (1,)}
    watch = FileWatch(clock, ["a"], stamp_of=lambda path: stamp[path])
    stamp["a"] = (2,)
    watch.watch(["a", "b"])
    assert seen_after(clock, watch, 2) == [False, True]
