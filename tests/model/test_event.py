"""An event is the same before and after the journal; lines that are none of ours are no events."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.model.event import Event, Result, event_of

EVENT = Event(
    at="2027-01-05T10:03:11Z",
    node="gpu-07",
    engine="llama-70b@0",
    action="replace",
    result=Result.DONE,
    detail="ready",
    seconds=42.5,
    command="llmgw apply",
    user="root",
    sudo_user="alice",
    state="/srv/states/node.yaml",
    commit="5f0b02c7d1e95f0b02c7d1e95f0b02c7d1e95f0b",
    plan="sha256:9c0e41aa02bd",
    reason="new template",
)
DOCUMENT = {
    "format_version": 1,
    "at": "2027-01-05T10:03:11Z",
    "node": "gpu-07",
    "engine": "llama-70b@0",
    "action": "replace",
    "result": "done",
    "detail": "ready",
    "seconds": 42.5,
    "command": "llmgw apply",
    "user": "root",
    "sudo_user": "alice",
    "state": "/srv/states/node.yaml",
    "commit": "5f0b02c7d1e95f0b02c7d1e95f0b02c7d1e95f0b",
    "plan": "sha256:9c0e41aa02bd",
    "reason": "new template",
}


def test_an_event_is_written_field_by_field_and_read_back_as_it_was() -> None:
    assert EVENT.as_json == DOCUMENT
    assert event_of(DOCUMENT) == EVENT


@pytest.mark.parametrize(
    "line",
    [
        pytest.param({}, id="nothing"),
        pytest.param(DOCUMENT | {"format_version": 2}, id="another version"),
        pytest.param({name: value for name, value in DOCUMENT.items() if name != "user"}, id="a field is missing"),
        pytest.param(DOCUMENT | {"result": "perhaps"}, id="a result that there is not"),
        pytest.param(DOCUMENT | {"engine": 7}, id="a field of another kind"),
        pytest.param([], id="a list"),
    ],
)
def test_a_line_that_is_none_of_ours_is_no_event(line: Any) -> None:
    assert event_of(line) is None


@pytest.mark.parametrize(("name", "meant"), [("llama-70b", True), ("llama-70b@0", True), ("llama-70b@1", False)])
def test_an_event_is_about_its_engine_by_either_name(name: str, meant: bool) -> None:
    assert EVENT.is_about(name) is meant
