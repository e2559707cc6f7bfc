import io
import os
import socket
import sys

import pytest

from llmgw_reconcile.errors import StateFileError
from llmgw_reconcile.statefile import read
from llmgw_reconcile.statefile.read import read_plain_file, read_state


def refusal(path):
    with pytest.raises(StateFileError) as caught:
        read_state(str(path))
    (diagnostic,) = caught.value.diagnostics
    assert caught.value.exit_code == 3
    return diagnostic


def test_a_file_gives_its_bytes_and_its_directory(tmp_path):
    (tmp_path / "node.yaml").write_bytes(b"version: 1\n")
    assert read_state(f"{tmp_path}/node.yaml") == (b"version: 1\n", str(tmp_path))


def test_a_relative_path_starts_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "states").mkdir()
    (tmp_path / "states/node.yaml").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert read_state("states/node.yaml") == (b"", f"{tmp_path}/states")


def test_a_link_is_read_and_its_own_directory_counts(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/node.yaml").write_bytes(b"x")
    (tmp_path / "link.yaml").symlink_to("real/node.yaml")
    assert read_state(f"{tmp_path}/link.yaml") == (b"x", str(tmp_path))


def test_a_dash_is_standard_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"version: 1\n")))
    assert read_state("-") == (b"version: 1\n", str(tmp_path))


def test_a_missing_file_is_named_with_the_reason(tmp_path):
    assert str(refusal(tmp_path / "gone.yaml")) == (
        f"error[state-unreadable] {tmp_path}/gone.yaml: cannot read the state file: No such file or directory\n"
        "  hint: name a YAML file, or - for standard input"
    )


def test_a_closed_standard_input_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    found = refusal("-")
    assert (found.where, found.message) == ("standard input", "cannot read the state file: standard input is closed")


def _pipe(path):
    os.mkfifo(path)


def _socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _loop(path):
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda path: path.mkdir(), "it is a directory, not a plain file", id="directory"),
        pytest.param(_pipe, "it is a pipe, not a plain file", id="pipe-without-a-writer"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), "it is a device, not a plain file", id="device"),
        pytest.param(_socket, "No such device or address", id="socket"),
        pytest.param(_loop, "Too many levels of symbolic links", id="loop-of-links"),
    ],
)
def test_what_is_no_plain_file_is_refused_at_once(tmp_path, monkeypatch, make, reason):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    make(type(tmp_path)("odd"))
    assert refusal("odd").message == f"cannot read the state file: {reason}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named_with_the_reason(tmp_path):
    (tmp_path / "node.yaml").touch(mode=0o000)
    assert refusal(tmp_path / "node.yaml").message == "cannot read the state file: Permission denied"


def test_a_file_beyond_the_bound_is_refused_and_not_read_whole(tmp_path):
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.truncate(10 << 30)
    assert refusal(tmp_path / "huge.yaml").message == "cannot read the state file: it is larger than 64 MiB"


def test_a_file_at_the_bound_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "MAX_BYTES", 4)
    (tmp_path / "a").write_bytes(b"1234")
    assert read_plain_file(f"{tmp_path}/a") == b"1234"
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(OSError, match="larger than"):
        read_plain_file(f"{tmp_path}/a")
