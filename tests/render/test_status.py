from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest

from llmgw_reconcile.model.observed import ForeignProcess, LastExit, ObservedEngine, ObservedState, Phase
from llmgw_reconcile.render.status import duration_text, status_document, status_text
from tests.plan.builders import ended, gpu, running, spec, warning

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "status.schema.json").read_text())
NOON = 1796126400.0  # 2026-12-01T12:00:00Z

READY = running(spec("chat"), gpu(0), gpu(1), since="2026-12-01T09:47:00Z", restarts=1)
FAILED = ended(
    spec("bad", port=8001),
    phase=Phase.FAILED,
    since="2026-12-01T11:54:48Z",
    last_exit=LastExit(code=7, at="2026-12-01T11:54:48Z", cause="ValueError: No available memory"),
    log_tail=("line 1", "line 2"),
)
LOADING = running(spec("big", port=8002), phase=Phase.LOADING, since="2026-12-01T11:59:30Z", detail="shard 3 of 8")
NODE = ObservedState(engines=(FAILED, LOADING, READY))
STRANGERS = (
    ForeignProcess(4121, "alice", "python train.py", "GPU 3: 61190 MiB"),
    ForeignProcess(None, "uid 0", None, "port 8003"),
)


def test_the_document_of_an_engine_in_full():
    document = status_document("gpu-07", ObservedState(engines=(FAILED,)), STRANGERS)
    assert document == {
        "format_version": 1,
        "node": "gpu-07",
        "engines": [
            {
                "engine": "bad@0",
                "model": "bad",
                "phase": "failed",
                "pid": None,
                "port": 8001,
                "gpus": [],
                "served": ["bad"],
                "since": "2026-12-01T11:54:48Z",
                "restarts": 0,
                "last_exit": {
                    "code": 7,
                    "signal": None,
                    "at": "2026-12-01T11:54:48Z",
                    "cause": "ValueError: No available memory",
                },
                "log_tail": ["line 1", "line 2"],
            }
        ],
        "foreign": [
            {"pid": 4121, "user": "alice", "command": "python train.py", "holds": "GPU 3: 61190 MiB"},
            {"pid": None, "user": "uid 0", "command": None, "holds": "port 8003"},
        ],
    }


def test_a_log_tail_is_there_only_when_there_is_one():
    (engine,) = status_document("gpu-07", ObservedState(engines=(READY,)), ())["engines"]
    assert "log_tail" not in engine
    assert (engine["pid"], engine["gpus"]) == (4100, ["GPU-0", "GPU-1"])


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(NODE, id="engines-in-several-phases"),
        pytest.param(ObservedState(), id="an-empty-node"),
        pytest.param(
            ObservedState(engines=(ObservedEngine("lost@3", Phase.ORPHANED),)), id="an-engine-without-records"
        ),
        pytest.param(ObservedState(engines=tuple(ended(spec(str(p)), phase=p) for p in Phase)), id="every-phase"),
    ],
)
def test_the_document_fits_its_schema(observed):
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(status_document("gpu-07", observed, STRANGERS), SCHEMA)


def test_the_table_of_a_node():
    text = status_text("gpu-07", NODE, STRANGERS, now=NOON, gpu_indices={"GPU-0": 0, "GPU-1": 1})
    assert text == dedent("""\
        ENGINE  PHASE    FOR     PID   PORT  GPUS  RESTARTS  LAST EXIT
        bad@0   failed   5m 12s  -     8001  -     0         exit code 7
          last exit: ValueError: No available memory
        big@0   loading  30s     4100  8002  -     0         -
          shard 3 of 8
        chat@0  ready    2h 13m  4100  8000  0,1   1         -

        Held by processes that are not ours, and never signalled:
          pid 4121  alice  python train.py  GPU 3: 61190 MiB
          pid -     uid 0  -                port 8003
        """)


def test_problems_come_last_and_once():
    problem = warning("stale-pid-file", "pid 4100 is another program now")
    observed = ObservedState(engines=(ended(problems=(problem,)),), problems=(problem,))
    assert status_text("gpu-07", observed, (), now=NOON) == dedent("""\
        ENGINE  PHASE    FOR  PID  PORT  GPUS  RESTARTS  LAST EXIT
        chat@0  stopped  -    -    8000  -     0         -

        warning[stale-pid-file] chat@0: pid 4100 is another program now
        """)


def test_a_node_without_engines_says_so():
    assert status_text("gpu-07", ObservedState(), (), now=NOON) == "No engines on gpu-07.\n"


def test_colour_marks_the_phase_and_nothing_else():
    text = status_text("gpu-07", ObservedState(engines=(READY,)), (), now=NOON, color=True)
    assert "\nchat@0  \x1b[32mready\x1b[0m  2h 13m" in text


def test_what_others_wrote_cannot_steer_the_terminal():
    engine = READY._replace(detail="\x1b[2Jx", last_exit=LastExit(signal="SIGKILL", cause="a\rb"))
    stranger = ForeignProcess(1, "u\x07", "c\x1b[1m", "port 1")
    text = status_text("gpu-07", ObservedState(engines=(engine,)), (stranger,), now=NOON)
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        pytest.param(None, "-", id="unknown"),
        pytest.param("yesterday", "-", id="unreadable"),
        pytest.param("2026-12-01T12:00:05Z", "0s", id="a-clock-that-stepped-back"),
        pytest.param("2026-11-29T09:00:00+00:00", "2d 3h", id="days"),
    ],
)
def test_for_how_long(since, shown):
    text = status_text("gpu-07", ObservedState(engines=(READY._replace(since=since),)), (), now=NOON)
    assert text.splitlines()[1].startswith(f"chat@0  ready  {shown} ")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (0.04, "0.0s"), (9.94, "9.9s"), (10.6, "10s"), (60, "1m 0s"), (3600, "1h 0m"), (90061, "1d 1h")],
)
def test_durations(seconds, shown):
    assert duration_text(seconds) == shown
