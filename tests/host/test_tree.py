import os

import pytest

from llmgw_reconcile.host.tree import RecordingTree, Tree


@pytest.fixture
def root(tmp_path):
    (tmp_path / "devices/pci0000:00/0000:00:01.0").mkdir(parents=True)
    (tmp_path / "devices/pci0000:00/0000:00:01.0/numa_node").write_text("1\n")
    (tmp_path / "class").mkdir()
    (tmp_path / "class/x0").symlink_to("../devices/pci0000:00/0000:00:01.0")
    (tmp_path / "class/lost").symlink_to("../devices/gone")
    return tmp_path


def test_a_file_is_read_as_it_stands(root):
    assert Tree(str(root)).text("class/x0/numa_node") == "1\n"


def test_what_is_missing_or_cannot_be_read_is_none(root):
    tree = Tree(str(root))
    assert [tree.text("class"), tree.text("none"), tree.names("none"), tree.target("class"), tree.place("none")] == [
        None
    ] * 5


def test_a_file_that_nobody_writes_to_does_not_hold_up_the_reader(root):
    os.mkfifo(root / "pipe")
    assert Tree(str(root)).text("pipe") == ""


def test_bytes_that_are_no_text_are_read_all_the_same(root):
    (root / "vpd").write_bytes(b"\x82\xff ok")
    assert Tree(str(root)).text("vpd") == "\x82\ufffd ok".replace("\x82", "\ufffd")


def test_no_more_than_the_limit_is_read(root):
    (root / "long").write_text("x" * 10000)
    assert [len(Tree(str(root)).text("long", limit)) for limit in (4096, 9000, 20000)] == [4096, 9000, 10000]


def test_entries_come_sorted(root):
    assert Tree(str(root)).names("class") == ("lost", "x0")


def test_a_link_is_told_by_its_end_and_followed_to_its_place(root):
    tree = Tree(str(root))
    assert tree.target("class/x0") == "0000:00:01.0"
    assert tree.place("class/x0") == "devices/pci0000:00/0000:00:01.0"
    assert (tree.target("class/lost"), tree.place("class/lost")) == ("gone", None)


def test_a_recording_tree_keeps_what_there_was_and_answers_alike(root):
    tree = RecordingTree(str(root))
    assert (tree.text("class/x0/numa_node"), tree.text("none"), tree.names("class")) == ("1\n", None, ("lost", "x0"))
    assert (tree.target("class/x0"), tree.place("class/x0")) == ("0000:00:01.0", "devices/pci0000:00/0000:00:01.0")
    assert tree.record == {
        "texts": {"class/x0/numa_node": "1\n"},
        "names": {"class": ("lost", "x0")},
        "targets": {"class/x0": "0000:00:01.0"},
        "places": {"class/x0": "devices/pci0000:00/0000:00:01.0"},
    }
