"""An event is one line that says what was done, how it ended, by whom, from what and why."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.model.event import Event, Result
from llmgw_reconcile.render.events import event_text


def event(**changed: Any) -> Event:
    plain = Event(
        at="2027-01-05T10:03:11Z",
        node="gpu-07",
        engine="chat@0",
        action="start",
        result=Result.DONE,
        detail="ready",
        seconds=42.4,
        command="llmgw apply",
        user="alice",
    )
    return plain._replace(**changed)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        pytest.param(
            {},
            "2027-01-05T10:03:11Z  start    chat@0              done: ready, 42s (alice: llmgw apply)\n",
            id="what is always known",
        ),
        pytest.param(
            {
                "action": "replace",
                "user": "root",
                "sudo_user": "alice",
                "state": "/srv/node.yaml",
                "commit": "5f0b02c7d1e9aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                "plan": "sha256:9c0e41aa02bdffff",
                "reason": "new template",
            },
            "2027-01-05T10:03:11Z  replace  chat@0              done: ready, 42s (alice as root: llmgw apply"
            " /srv/node.yaml, commit 5f0b02c7d1e9, plan 9c0e41aa02bd: new template)\n",
            id="all that can be known",
        ),
        pytest.param(
            {
                "result": Result.NOT_TRIED,
                "detail": "interrupted",
                "seconds": None,
                "engine": "a-long-name-of-a-model@12",
            },
            "2027-01-05T10:03:11Z  start    a-long-name-of-a-model@12  not-tried: interrupted (alice: llmgw apply)\n",
            id="a long name sticks out",
        ),
        pytest.param(
            {"detail": "\x1b[2Jgone\nready", "reason": "a\rb"},
            "2027-01-05T10:03:11Z  start    chat@0              done: gone\\x0aready, 42s"
            " (alice: llmgw apply: a\\x0db)\n",
            id="texts that a terminal would obey",
        ),
    ],
)
def test_an_event_is_one_line(changed: dict[str, Any], line: str) -> None:
    assert event_text(event(**changed)) == line


def test_the_result_alone_is_coloured() -> None:
    text = event_text(event(result=Result.FAILED, detail="exit code 7"), color=True)
    assert "  \x1b[31mfailed\x1b[0m: exit code 7, 42s" in text
    assert text.count("\x1b") == 2
