"""System calls that Python lacks, by what they do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llmgw_reconcile.host import libc
from tests.fakes.disk import full_disk

PACKAGE = str(Path(libc.__file__).parents[2])

ORPHAN = """
import os, sys; sys.path.insert(0, sys.argv[1])
from llmgw_reconcile.host.libc import become_subreaper
assert become_subreaper()
r, w = os.pipe()
middle = os.fork()
if middle == 0:
    middle = os.getpid()
    if os.fork() == 0:
        os.setsid()
        while os.getppid() == middle: pass
        os.write(w, str(os.getppid()).encode())
    os._exit(0)
os.waitpid(-1, 0)
print(int(os.read(r, 20)) == os.getpid())
"""

AFTERWARDS = """
import sys; sys.path.insert(0, sys.argv[1])
import json, re, subprocess
from llmgw_reconcile.host.libc import release_code
def resident():
    return sum(int(line.split()[1]) for line in open('/proc/self/smaps_rollup') if line.startswith('Rss'))
before = resident()
release_code()
after = resident()
assert json.loads(json.dumps([1])) == [1] and re.search("b+", "abb")
assert subprocess.run(["true"]).returncode == 0
print(before - after > 500)
"""


def run(code: str) -> str:
    argv = [sys.executable, "-ISc", code, PACKAGE]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_a_subreaper_inherits_what_lost_its_parent() -> None:
    assert run(ORPHAN) == "True"


def test_a_process_goes_on_after_it_gave_back_its_code() -> None:
    assert run(AFTERWARDS) == "True"


def test_the_middle_of_a_file_is_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 65536 + b"b" * 65536 + b"c" * 65536)
    with open(path, "r+b") as file:
        if not libc.collapse_range(file.fileno(), 65536, 65536):
            pytest.skip("this file system cannot collapse ranges")
    assert path.read_bytes() == b"a" * 65536 + b"c" * 65536


def test_a_file_system_that_cannot_do_it_says_so_and_changes_nothing() -> None:
    with full_disk() as disk:
        path = disk / "file"
        path.write_bytes(b"a" * 16384)
        with open(path, "r+b") as file:
            assert not libc.collapse_range(file.fileno(), 4096, 4096)
        assert path.read_bytes() == b"a" * 16384


def test_a_descriptor_of_nothing_is_no_exception() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    assert not libc.collapse_range(reader, 4096, 4096)


def test_a_function_that_the_library_lacks_is_no_exception() -> None:
    assert libc._call("no_such_function_at_all") == -1
