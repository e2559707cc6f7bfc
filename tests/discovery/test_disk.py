"""What a directory lies on."""

from __future__ import annotations

import pytest

from llmgw_reconcile.discovery.disk import disk_of


@pytest.fixture
def mounts(tmp_path):
    """A table of mounts below a folder of the test."""
    (tmp_path / "data/my models").mkdir(parents=True)
    (tmp_path / "database").mkdir()

    def write(*lines: str) -> str:
        path = tmp_path / "mounts"
        path.write_text("".join(f"dev {line.replace('@', str(tmp_path))} rw 0 0\n" for line in lines))
        return str(path)

    return write


def test_the_innermost_mount_counts(tmp_path, mounts) -> None:
    table = mounts("/ ext4", "@/data tmpfs", "@ xfs")
    assert disk_of(str(tmp_path / "data"), table).kind == "tmpfs"
    assert disk_of(str(tmp_path / "database"), table).kind == "xfs"


def test_a_later_mount_on_one_place_hides_the_earlier_one(tmp_path, mounts) -> None:
    assert disk_of(str(tmp_path / "data"), mounts("@/data nfs4", "@/data tmpfs")).kind == "tmpfs"


def test_blanks_in_the_name_of_a_mount_are_understood(tmp_path, mounts) -> None:
    assert disk_of(str(tmp_path / "data/my models"), mounts("@/data ext4", r"@/data/my\040models nfs4")).kind == "nfs4"


def test_a_folder_that_is_not_there_yet_lies_where_its_parent_does(tmp_path, mounts) -> None:
    found = disk_of(str(tmp_path / "data/a/b/c"), mounts("@/data tmpfs"))
    assert found.kind == "tmpfs"
    assert found.free_mb is not None


def test_without_a_table_the_kind_is_unknown(tmp_path) -> None:
    assert disk_of(str(tmp_path), str(tmp_path / "gone")).kind is None
