"""Ask real small programs about themselves, and find the answers again while they stay the same."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from llmgw_reconcile.discovery import engine_version
from llmgw_reconcile.discovery.engine_version import Answers, Questions, ask, cache_folder, recall, remember
from tests.fakes.procs import processes_of

TOLD = Answers("0.33.0", "  --port PORT")
LISTENS = "import socket, time\ns = socket.create_server(('127.0.0.1', 0))\ntime.sleep(60)"


def program(folder: Path, body: str, name: str = "vllm") -> Questions:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return Questions((str(path), "--version"), ((str(path), "--help=all"), (str(path), "--help")))


def asked(*questions: Questions, **env: str) -> tuple[Answers, ...]:
    return ask(tuple((one, {"PATH": os.environ["PATH"], **env}) for one in questions))


# ---- asking ----


def test_version_and_help_are_what_was_printed(tmp_path: Path) -> None:
    engine = program(tmp_path, 'case $1 in --version) echo 0.33.0;; *) echo "flags of $1"; echo warned >&2;; esac')
    assert asked(engine) == (Answers("0.33.0", "flags of --help=all\n\nwarned"),)


def test_an_older_release_is_asked_in_its_own_form(tmp_path: Path) -> None:
    engine = program(tmp_path, "case $1 in --version) echo 0.7;; --help=all) exit 2;; *) echo flags;; esac")
    assert asked(engine) == (Answers("0.7", "flags"),)


def test_a_version_on_standard_error_counts(tmp_path: Path) -> None:
    engine = program(tmp_path, 'case $1 in --version) echo "version: 10434 (ab)" >&2;; *) exit 1;; esac')
    assert asked(engine) == (Answers("version: 10434 (ab)", ""),)


def test_what_an_engine_refuses_to_say_stays_empty_for_good(tmp_path: Path) -> None:
    assert asked(program(tmp_path, "echo no >&2; exit 1")) == (Answers("", "", is_final=True),)


def test_what_is_not_there_has_no_answer(tmp_path: Path) -> None:
    assert asked(Questions((str(tmp_path / "x"), "--version"), ((str(tmp_path / "x"), "--help"),))) == (Answers(),)


def test_one_that_hangs_is_ended_at_its_bound_and_may_answer_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_version, "TIMEOUT", 0.3)
    slow = program(tmp_path, "case $1 in --version) echo 0.33.0;; *) sleep 60 & wait;; esac", "slow")
    quick = program(tmp_path, "case $1 in --version) echo 0.5.23;; *) echo flags;; esac", "quick")
    assert asked(slow, quick) == (Answers("0.33.0", "", is_final=False), Answers("0.5.23", "flags"))
    assert processes_of(tmp_path) == {}


def test_one_that_takes_the_question_for_a_start_is_ended_as_soon_as_it_listens(tmp_path: Path) -> None:
    engine = program(tmp_path, f'exec {sys.executable} -c "{LISTENS}"  # {tmp_path}')
    assert asked(engine) == (Answers("", "", is_final=True),)
    assert processes_of(tmp_path) == {}


def test_the_engine_is_asked_in_its_environment_and_is_not_marked_as_an_engine(tmp_path: Path) -> None:
    engine = program(tmp_path, 'echo "$PLUGINS,$LLMGW_ENGINE,$LLMGW_LAUNCH,$TMPDIR,$PYTHONSAFEPATH"')
    (answers,) = asked(engine, PLUGINS="p", LLMGW_ENGINE="chat@0", LLMGW_LAUNCH="ab", TMPDIR="/absent")
    assert answers.version == "p,,,,1"


# ---- remembering ----


def test_an_answer_is_found_again(tmp_path: Path) -> None:
    folder, engine = str(tmp_path / "cache/llmgw/engines"), program(tmp_path, "exit 0")
    assert recall(folder, engine) is None
    remember(folder, engine, TOLD)
    assert recall(folder, engine) == TOLD


def test_that_nothing_was_answered_is_remembered_too(tmp_path: Path) -> None:
    folder, engine = str(tmp_path / "cache/llmgw/engines"), program(tmp_path, "exit 0")
    remember(folder, engine, Answers())
    assert recall(folder, engine) == Answers()


def test_one_that_was_too_slow_is_asked_once_more_and_not_for_ever(tmp_path: Path) -> None:
    folder, engine = str(tmp_path / "cache/llmgw/engines"), program(tmp_path, "exit 0")
    remember(folder, engine, Answers("0.33.0", "", is_final=False))
    assert recall(folder, engine) is None
    remember(folder, engine, Answers("0.33.0", "", is_final=False))
    assert recall(folder, engine) == Answers("0.33.0", "")


def test_the_cache_is_private_whatever_the_umask(tmp_path: Path) -> None:
    folder, engine = tmp_path / "cache/llmgw/engines", program(tmp_path, "exit 0")
    before = os.umask(0)
    try:
        remember(str(folder), engine, TOLD)
    finally:
        os.umask(before)
    (record,) = folder.iterdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, record)]
    assert modes == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("what", ["content", "time", "gone", "packages", "another-link"])
def test_another_engine_in_its_place_is_another_engine(tmp_path: Path, what: str) -> None:
    (tmp_path / "v/bin").mkdir(parents=True)
    packages = tmp_path / "v/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    folder, engine = str(tmp_path / "cache/llmgw/engines"), program(tmp_path / "v/bin", "exit 0")
    path = Path(engine.executable)
    remember(folder, engine, TOLD)
    if what == "content":
        path.write_text("#!/bin/sh\nexit 00\n")
    elif what == "time":
        os.utime(path, ns=(1, 1))
    elif what == "gone":
        path.unlink()
    elif what == "packages":
        os.utime(packages, ns=(1, 1))
    else:
        shutil.copy2(path, tmp_path / "copy")
        path.unlink()
        path.symlink_to(tmp_path / "copy")
    assert recall(folder, engine) is None


def test_two_interpreters_that_are_links_to_one_are_two_engines(tmp_path: Path) -> None:
    folder = str(tmp_path / "cache/llmgw/engines")
    real = program(tmp_path, "exit 0")
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(real.executable)
    one, other = (Questions((str(tmp_path / name), "-c", "x"), (("y",),)) for name in ("a", "b"))
    remember(folder, one, TOLD)
    assert (recall(folder, one), recall(folder, other)) == (TOLD, None)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format_version": 2}', b'{"format_version": 1, "identity": 1}', bytes(64)]
)
def test_a_record_that_is_none_is_no_answer(tmp_path: Path, content: bytes) -> None:
    folder, engine = tmp_path / "cache/llmgw/engines", program(tmp_path, "exit 0")
    remember(str(folder), engine, TOLD)
    (record,) = folder.iterdir()
    record.write_bytes(content)
    assert recall(str(folder), engine) is None


def test_a_record_that_others_may_write_to_is_not_believed(tmp_path: Path) -> None:
    folder, engine = tmp_path / "cache/llmgw/engines", program(tmp_path, "exit 0")
    remember(str(folder), engine, TOLD)
    (record,) = folder.iterdir()
    record.chmod(0o666)
    assert recall(str(folder), engine) is None


def test_fields_of_another_kind_are_not_believed(tmp_path: Path) -> None:
    folder, engine = tmp_path / "cache/llmgw/engines", program(tmp_path, "exit 0")
    remember(str(folder), engine, TOLD)
    (record,) = folder.iterdir()
    record.write_text(json.dumps(json.loads(record.read_text()) | {"version": 33}))
    assert recall(str(folder), engine) is None


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    engine = program(tmp_path, "exit 0")
    remember(str(tmp_path / "cache/llmgw/engines"), engine, TOLD)
    assert recall(str(tmp_path / "cache/llmgw/engines"), engine) is None


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/llmgw/engines"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/llmgw/engines"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/llmgw/engines"),
    ],
)
def test_the_cache_lies_where_caches_do(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == folder
