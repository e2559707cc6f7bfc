"""`llmgw explain`: causes and cures."""

from __future__ import annotations

import pytest

from llmgw_reconcile.cli.main import main


@pytest.mark.parametrize("code", ["duplicate-key", "error[duplicate-key]", "[duplicate-key]", "duplicate-key:"])
def test_a_code_is_explained_however_it_was_copied(code: str, capsys) -> None:
    assert main(["explain", code]) == 0
    assert capsys.readouterr().out == (
        "why:   A key stands twice in one mapping. Most YAML readers silently take the last one.\n"
        "cure:  Remove one of them.\n"
    )


def test_without_a_code_all_are_listed(capsys) -> None:
    assert main(["explain"]) == 0
    out = capsys.readouterr().out
    assert "duplicate-key: A key stands twice in one mapping\n" in out
    assert out.splitlines() == sorted(out.splitlines())


def test_at_forty_columns_no_line_is_longer(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    main(["explain", "fp8-weight-only"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_an_unknown_code_is_refused_with_the_nearest(capsys) -> None:
    assert main(["explain", "dublicate-key"]) == 3
    assert "did you mean duplicate-key?" in capsys.readouterr().err
