"""Beginnings of files that others wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmgw_reconcile.host.file_start import open_plain, read_start


def test_no_more_than_the_bound_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    assert read_start(str(tmp_path / "f"), 4) == b"0123"
    assert read_start(str(tmp_path / "f"), 40) == b"0123456789"


def test_the_size_of_the_whole_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    with open_plain(str(tmp_path / "f")) as (file, size):
        assert (file.read(2), size) == (b"01", 10)


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        read_start(str(tmp_path / "pipe"), 4)


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_devices_and_folders_are_no_files(path: str) -> None:
    with pytest.raises(OSError, match="not a plain file"):
        read_start(path, 4)
