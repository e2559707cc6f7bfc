"""The metrics of a living node: for the textfile collector, and from the agent; both are one and the same page."""

from __future__ import annotations

import json
import signal
from http.client import HTTPConnection

import pytest

from tests.fakes.node import Node
from tests.fakes.nvidia_smi import h100
from tests.fakes.procs import until

CHAT = '{engine="chat@0",model="chat"}'


def samples(text: str) -> dict[str, float]:
    """Name and labels -> value; lines that are no comments have exactly two parts."""
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def metrics(node: Node, code: int = 0) -> dict[str, float]:
    return samples(node.llmgw("status", "-o", "prometheus", code=code).out)


def test_a_node_that_is_as_it_should_be(node: Node) -> None:
    state = node.state(node.model(stub={"LOAD_DELAY": 0.5}))
    node.apply(state)
    found = metrics(node)
    assert found['llmgw_engine_phase{engine="chat@0",model="chat",phase="ready"}'] == 1
    assert found['llmgw_engine_phase{engine="chat@0",model="chat",phase="failed"}'] == 0
    assert 0.5 <= found[f"llmgw_engine_load_seconds{CHAT}"] < 30
    assert found[f"llmgw_engine_restarts{CHAT}"] == 0
    assert found[f"llmgw_engine_ready_timestamp_seconds{CHAT}"] >= found["llmgw_last_apply_timestamp_seconds"]
    assert len([name for name, value in found.items() if name.startswith("llmgw_gpu_healthy{") and value]) == 8
    assert sum(value for name, value in found.items() if name.startswith("llmgw_pending_changes")) == 0
    assert found["llmgw_last_apply_success"] == 1
    assert f'llmgw_last_apply_info{{file="{state}",commit=""}}' in found


def test_what_drifted_away_from_the_applied_state_is_pending(node: Node) -> None:
    node.apply(node.state(node.model(restart={"policy": "never"}), node.model("embed")))
    node.kill(node.engine()["pid"])
    until(lambda: node.engine()["phase"] == "failed")
    found = metrics(node)
    assert found['llmgw_pending_changes{action="start"}'] == 1
    assert found['llmgw_pending_changes{action="stop"}'] == 0
    assert f"llmgw_engine_ready_timestamp_seconds{CHAT}" not in found


def test_a_crash_is_counted_and_a_sick_card_is_seen(node: Node) -> None:
    node.apply(node.state(node.model()))
    first = node.engine()["pid"]
    node.kill(first)
    until(lambda: (now := node.engine())["phase"] == "ready" and now["pid"] != first)
    node.gpus(h100(0), h100(1) | {"ecc.errors.uncorrected.volatile.total": "2"})
    found = metrics(node)
    assert found[f"llmgw_engine_restarts{CHAT}"] == 1
    healthy = {name.split('"')[1]: value for name, value in found.items() if name.startswith("llmgw_gpu_healthy")}
    assert healthy == {"0": 1, "1": 0}


def test_a_node_whose_cards_cannot_be_read_says_so_and_tells_the_rest(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.gpus(h100(0), code=9)
    found = metrics(node, code=1)
    assert found["llmgw_gpus_known"] == 0
    assert found['llmgw_engine_phase{engine="chat@0",model="chat",phase="ready"}'] == 1
    assert not any(name.startswith(("llmgw_gpu_healthy", "llmgw_pending_changes")) for name in found)
    node.gpus(h100(0))


def test_a_node_where_nothing_was_applied_has_metrics_and_gets_no_files(node: Node) -> None:
    found = metrics(node)
    assert found["llmgw_records_readable"] == 1
    assert not any("apply" in name or "engine" in name for name in found)
    assert not node.state_dir.exists()


def test_the_agent_serves_the_same_page(node: Node) -> None:
    state = node.state(node.model())
    port = node.port()
    agent = node.begin("agent", "run", state, "--metrics", port)
    try:
        until(lambda: node.status().get("chat@0", {}).get("phase") == "ready", 20)
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/metrics")
        reply = connection.getresponse()
        served = reply.read().decode()
        connection.close()
        assert reply.status == 200
        assert samples(served) == metrics(node)
    finally:
        agent.send_signal(signal.SIGTERM)
        _, err = agent.communicate(timeout=20)
    assert "Traceback" not in err
    assert node.engine()["phase"] == "ready"


@pytest.mark.parametrize("address", ["0", "70000", "http", ":9401", "host:", "1.5"])
def test_an_address_that_is_none_is_a_usage_error(node: Node, address: str) -> None:
    result = node.llmgw("agent", "run", "node.yaml", "--metrics", address, code=64)
    assert "is no port; write 9401, 0.0.0.0:9401 or [::]:9401" in result.err


def test_a_plan_in_markdown_is_printed_and_added_to_the_summary_of_the_job(node: Node) -> None:
    state = node.state(node.model())
    text = node.llmgw("plan", state, "-o", "markdown").out
    assert text.startswith("### Plan for `")
    assert "| `+` | `chat@0` | start | `not running` |" in text
    assert json.loads(node.llmgw("plan", state, "-o", "json").out)["digest"] in text
    summary = node.root / "summary.md"
    summary.write_text("before\n")
    node.env["GITHUB_STEP_SUMMARY"] = str(summary)
    assert node.llmgw("plan", state, "-o", "markdown").out == text
    assert summary.read_text() == f"before\n{text}"
    node.llmgw("plan", state)
    assert summary.read_text() == f"before\n{text}"
    node.env["GITHUB_STEP_SUMMARY"] = str(node.root / "no/where.md")
    result = node.llmgw("plan", state, "-o", "markdown", code=1)
    assert result.out == text
    assert "cannot add to GITHUB_STEP_SUMMARY" in result.err
