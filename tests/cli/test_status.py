"""`llmgw status`: what really runs, and who else holds the GPUs."""

from __future__ import annotations

import json
import re

from tests.fakes import procs
from tests.fakes.node import Node
from tests.fakes.nvidia_smi import h100, uuid_of


def test_a_node_without_engines(node: Node) -> None:
    result = node.llmgw("status", "--node", "gpu-07")
    assert result.out == "No engines on gpu-07.\n"
    assert node.llmgw("status", "-o", "json").json()["engines"] == []


def test_a_running_engine_in_table_and_document(node: Node) -> None:
    node.apply(node.state(node.model(tensor_parallel_size=8, served_model_name=["chat", "gpt"])))
    (row,) = node.llmgw("status", "-o", "json").json()["engines"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row.pop("since"))
    assert row == {
        "engine": "chat@0",
        "model": "chat",
        "phase": "ready",
        "pid": row["pid"],
        "port": row["port"],
        "gpus": [uuid_of(index) for index in range(8)],
        "served": ["chat", "gpt"],
        "restarts": 0,
        "last_exit": {"code": None, "signal": None, "at": None, "cause": None},
    }
    heading, line = node.llmgw("status").out.splitlines()
    assert heading.split() == ["ENGINE", "PHASE", "FOR", "PID", "PORT", "GPUS", "RESTARTS", "LAST", "EXIT"]
    assert line.split()[:2] + line.split()[3:] == [
        "chat@0",
        "ready",
        str(row["pid"]),
        str(row["port"]),
        "0-7",
        "0",
        "-",
    ]


def test_a_group_of_eight_fits_into_eighty_columns(node: Node) -> None:
    node.env["COLUMNS"] = "80"
    node.apply(node.state(node.model("llama-3-70b-instruct", tensor_parallel_size=8)))
    node.kill(node.engine("llama-3-70b-instruct@0")["pid"])
    procs.until(lambda: node.engine("llama-3-70b-instruct@0")["phase"] == "ready")
    lines = node.llmgw("status").out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert "SIGKILL" in lines[1]


def test_a_failed_engine_shows_its_cause_once(node: Node) -> None:
    stub = {"EXIT": "7@0.1", "LISTEN_DELAY": 60, "ERROR": "ValueError: no room for the cache"}
    node.apply(node.state(node.model(stub=stub)), code=1)
    text = node.llmgw("status").out
    assert text.count("no room for the cache") == 1
    engine = node.engine()
    assert (engine["phase"], engine["pid"], engine["last_exit"]["code"]) == ("failed", None, 7)
    assert engine["last_exit"]["cause"] == "ValueError: no room for the cache"
    assert any("no room for the cache" in line for line in engine["log_tail"]) or len(engine["log_tail"]) == 40


def test_an_engine_that_misses_its_probes_is_degraded_and_says_what_is_missing(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.tell(HEALTH=503)
    assert node.engine()["phase"] == "degraded"
    assert "/health answers 503" in node.llmgw("status").out
    node.tell(MODELS='["other"]')
    assert "/v1/models names other, not chat" in node.llmgw("status").out
    node.tell()
    assert node.engine()["phase"] == "ready"


def test_an_engine_whose_key_cannot_be_read_here_is_not_called_degraded(node: Node) -> None:
    key = node.root / "key"
    key.write_text("canary")
    key.chmod(0o600)
    node.apply(node.state(node.model(api_key={"file": str(key)})))
    assert node.engine()["phase"] == "ready"
    key.unlink()
    assert node.engine()["phase"] == "ready"


def test_an_engine_without_supervisor_and_left_over_workers_are_orphaned(node: Node) -> None:
    node.apply(node.state(node.model(stub={"WORKERS": 2, "WORKER_RENAME": 1})))
    pid = node.engine()["pid"]
    node.kill(node.supervisor_of(pid))
    assert (node.engine()["phase"], node.engine()["pid"]) == ("orphaned", pid)
    assert "it runs without a supervisor" in node.llmgw("status").out
    node.kill(pid)
    assert (node.engine()["phase"], node.engine()["pid"]) == ("orphaned", None)
    workers = ", ".join(map(str, sorted(node.stubs())))
    assert f"its leader is gone, processes of it are left: {workers}" in node.llmgw("status").out


def test_strangers_that_hold_gpus_are_named(node: Node) -> None:
    with procs.listener(node.port()) as pid:
        node.gpus(h100(0, memory_used=61190), processes=[{"gpu": uuid_of(0), "pid": pid, "mib": 61190}])
        (stranger,) = node.llmgw("status", "-o", "json").json()["foreign"]
        text = node.llmgw("status").out
    assert (stranger["pid"], stranger["holds"]) == (pid, "GPU 0 (h100-80g): 61190 MiB")
    assert f"pid {pid}" in text
    assert "61190 MiB" in text
    assert "import socket" not in json.dumps(stranger) + text  # arguments may hold secrets


def test_a_node_that_cannot_be_read_in_full_shows_what_it_can_and_exits_with_1(node: Node) -> None:
    node.apply(node.state(node.model(device="cpu")))
    node.gpus(replies={"": {"code": 18, "error": "Failed to initialize NVML: Driver/library version mismatch\n"}})
    result = node.llmgw("status", code=1)
    assert "chat@0" in result.out
    assert "mismatch" in result.out


def test_escapes_of_an_engine_do_not_reach_the_terminal(node: Node) -> None:
    stub = {"EXIT": "7@0.3", "LISTEN_DELAY": 60, "ERROR": "ValueError: \x1b[31mred\x07\x1b]0;title\x07"}
    result = node.apply(node.state(node.model(stub=stub)), code=1)
    shown = [result.text, node.llmgw("status").out, node.llmgw("logs", "chat").out]
    assert all("\x1b" not in text and "\x07" not in text for text in shown)
    assert "ValueError: red" in shown[0]
