"""`llmgw fmt` on files: what it writes, what it says, and when it does neither."""

from __future__ import annotations

import io
import os
import stat
import sys

import pytest

from llmgw_reconcile.cli.main import main

ODD = "models:\n- engine: vllm\n  name: a  # it\n  model: org/a\nversion: 1\n"
EVEN = "version: 1\nmodels:\n  - name: a  # it\n    model: org/a\n    engine: vllm\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.yaml").write_text(ODD)
    (tmp_path / "even.yaml").write_text(EVEN)
    return tmp_path


def test_files_are_rewritten_and_those_that_changed_are_named(folder, capsys) -> None:
    (folder / "odd.yaml").chmod(0o664)
    before = (folder / "even.yaml").stat().st_mtime_ns
    assert main(["fmt", "odd.yaml", "even.yaml"]) == 0
    assert capsys.readouterr() == ("odd.yaml\n", "")
    assert (folder / "odd.yaml").read_text() == EVEN
    assert stat.S_IMODE((folder / "odd.yaml").stat().st_mode) == 0o664
    assert (folder / "even.yaml").stat().st_mtime_ns == before


def test_check_names_what_it_would_change_and_changes_nothing(folder, capsys) -> None:
    assert main(["fmt", "--check", "odd.yaml", "even.yaml"]) == 1
    assert capsys.readouterr() == ("odd.yaml\n", "")
    assert (folder / "odd.yaml").read_text() == ODD
    assert main(["fmt", "--check", "even.yaml"]) == 0


def test_a_dash_is_a_filter(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ODD.encode())))
    assert main(["fmt", "-"]) == 0
    assert capsys.readouterr() == (EVEN, "")


def test_a_dash_can_be_checked(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ODD.encode())))
    assert main(["fmt", "--check", "-"]) == 1
    assert capsys.readouterr().out == "-\n"


def test_a_file_that_is_wrong_is_left_alone_and_the_others_are_not(folder, capsys) -> None:
    wrong = ODD.replace("engine", "motor")
    (folder / "wrong.yaml").write_text(wrong)
    assert main(["fmt", "wrong.yaml", "gone.yaml", "odd.yaml"]) == 3
    out, err = capsys.readouterr()
    assert out == "odd.yaml\n"
    assert "error[unknown-key] wrong.yaml:2:3" in err
    assert "cannot rewrite gone.yaml: No such file or directory" in err
    assert (folder / "wrong.yaml").read_text() == wrong


def test_a_link_is_refused(folder, capsys) -> None:
    (folder / "link.yaml").symlink_to("odd.yaml")
    assert main(["fmt", "link.yaml"]) == 3
    assert "symbolic link; name the file behind it" in capsys.readouterr().err
    assert (folder / "odd.yaml").read_text() == ODD


def test_a_layout_that_would_mean_something_else_is_refused(folder, capsys) -> None:
    # `|+` keeps the empty lines below a text: the one between two models would become a part of it.
    text = ODD.replace("version: 1\n", "  args:\n  - |+\n    x\n- {name: b, model: m, engine: vllm}\nversion: 1\n")
    (folder / "odd.yaml").write_text(text)
    assert main(["fmt", "odd.yaml"]) == 3
    assert "the new layout would mean something else, so the file is left as it is" in capsys.readouterr().err
    assert (folder / "odd.yaml").read_text() == text


def test_files_that_arguments_name_need_not_be_there(folder) -> None:
    (folder / "odd.yaml").write_text(ODD.replace("  model: org/a\n", "  model: org/a\n  args: [{file: gone.jinja}]\n"))
    assert main(["fmt", "odd.yaml"]) == 0


def test_no_temporary_file_is_left(folder) -> None:
    main(["fmt", "odd.yaml"])
    assert sorted(os.listdir(folder)) == ["even.yaml", "odd.yaml"]
