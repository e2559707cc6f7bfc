"""Options that several verbs share, and what they turn into."""

from __future__ import annotations

import io

import click
import pytest

from llmgw_reconcile.cli.options import Duration, Look, look_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1h", 3600), ("2m5s", 125), ("1.5s", 1.5), ("30", 30), ("0", 0)],
)
def test_a_duration(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1d", "1m1h", "5 s", "1.5m", "inf", "nan", "1e3"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no duration; write 90s, 10m or 1h30m"):
        Duration().convert(text, None, None)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation("no descriptor")


def test_a_pipe_is_neither_coloured_nor_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CI", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    assert look_of(io.StringIO(), "auto") == Look(color=False, width=None)
    assert look_of(io.StringIO(), "always") == Look(color=True, width=None)


def test_columns_wraps_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert look_of(io.StringIO(), "never") == Look(color=False, width=60)
