"""`llmgw plan`: the same bytes for the same world, nothing written, and nothing but this node's facts asked for."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.fakes import procs
from tests.fakes.node import Node
from tests.fakes.nvidia_smi import h100

ROOT = Path(__file__).parents[2]


def test_a_plan_writes_nothing_and_leaves_no_process(node: Node) -> None:
    state = node.state(node.model(), node.model("blocked", executable="/nonexistent"))
    before = node.files()
    for options in ([], ["-v"], ["-o", "json"], ["--detailed-exitcode"], ["--target", "chat"]):
        node.llmgw("plan", state, *options, code=None)
    assert node.files() == before
    assert not node.state_dir.exists()
    assert node.pids() == {}


def test_a_plan_of_running_engines_writes_nothing_either(node: Node) -> None:
    state = node.state(node.model(), node.model("other"))
    node.apply(state)
    before = node.files()
    node.llmgw("plan", state)
    node.llmgw("status")
    node.llmgw("logs", "chat")
    assert node.files() == before


def test_a_plan_needs_no_right_to_write(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    folders = [node.state_dir, *(path for path in node.state_dir.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert node.actions(state) == {}
    finally:
        for folder in folders:
            folder.chmod(0o700)


def test_the_same_world_gives_the_same_bytes(node: Node) -> None:
    state = node.state(node.model("b", replicas=2), node.model("a", labels={"z": "1", "a": "2"}))
    first, second = (node.llmgw("plan", state, "-o", "json").out for _ in range(2))
    assert first == second
    assert not re.search(r"\d{4}-\d\d-\d\dT", first)
    node.apply(state)
    again, once_more = (node.llmgw("plan", state, "-o", "json", "-v").out for _ in range(2))
    assert again == once_more


def test_order_comments_and_quotes_of_the_file_change_nothing(node: Node) -> None:
    chat = node.model(max_model_len=4096)
    state = node.state(chat)
    node.apply(state)
    lines = [f'  "{name}": {json.dumps(value)}' for name, value in reversed(chat.items())]
    state.write_text("# hello\nmodels:\n- {\n" + ",\n".join(lines) + "}  # the end\nversion: 1\n")
    assert node.actions(state) == {}


def test_what_llmgw_would_derive_differently_today_is_a_note_and_no_change(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    other = node.root / "other"
    other.mkdir()
    (other / "vllm").symlink_to(node.bin / "vllm")
    node.env["PATH"] = f"{other}:{node.bin}"
    node.llmgw("plan", state, "--detailed-exitcode", code=0)
    text = node.llmgw("plan", state).out
    assert "~ at next start" in text
    assert f"executable  {node.bin}/vllm => {other}/vllm" in text
    (action,) = node.plan(state)["actions"]
    assert (action["action"], action["changes"]) == ("keep", [])
    assert {change["field"] for change in action["at_next_start"]} >= {"executable", "env.PATH"}


def test_a_plan_goes_on_while_an_apply_runs(node: Node) -> None:
    state = node.state(node.model(stub={"LISTEN_DELAY": 60}))
    node.begin("apply", state)
    procs.until(node.stubs)
    (action,) = node.plan(state)["actions"]
    assert action["action"] == "keep"
    assert "it is on its way" in action["reason"]


def test_an_engine_that_is_busy_is_kept(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    node.tell(HEALTH=503)
    assert node.engine()["phase"] == "degraded"
    assert node.actions(state) == {}


def test_a_changed_secret_is_one_replacement_and_shows_no_value(node: Node) -> None:
    key = node.root / "key"
    key.write_text("first-canary")
    key.chmod(0o600)
    state = node.state(node.model(api_key={"file": str(key)}))
    node.apply(state)
    key.write_text("second-canary")
    text = node.llmgw("plan", state).out
    assert node.actions(state) == {"chat@0": "replace"}
    assert "api_key  (secret) changed" in text
    assert "canary" not in text + json.dumps(node.plan(state))


def test_a_secret_that_cannot_be_read_is_not_compared_and_blocks_only_who_must_start(node: Node) -> None:
    key = node.root / "key"
    key.write_text("canary")
    key.chmod(0o600)
    runs, new = (node.model(name, api_key={"file": str(key)}) for name in ("runs", "new"))
    state = node.state(runs)
    node.apply(state)
    key.unlink()
    node.state(runs, new)
    assert node.actions(state) == {"new@0": "start"}
    assert "warning[secret-not-compared] runs@0: api_key is not compared" in node.llmgw("plan", state).out
    result = node.apply(state, code=1)
    assert f"api_key: the file {key} cannot be read: No such file or directory" in result.out
    assert {name: row["phase"] for name, row in node.status().items()} == {"runs@0": "ready"}
    key.write_text("canary")
    key.chmod(0o600)
    node.state(runs)
    assert node.actions(state) == {}


def test_bookkeeping_that_changes_while_a_secret_is_unreadable_does_not_forget_its_digest(node: Node) -> None:
    key = node.root / "key"
    key.write_text("first")
    key.chmod(0o600)
    chat = node.model(api_key={"file": str(key)})
    state = node.state(chat)
    node.apply(state)
    key.unlink()
    node.state(chat | {"labels": {"team": "a"}})
    node.apply(state)
    key.write_text("second")
    key.chmod(0o600)
    assert node.actions(state) == {"chat@0": "replace"}


def test_a_plan_without_gpus_at_stake_asks_no_gpu_tool(node: Node) -> None:
    calls = node.root / "calls"
    node.gpus(h100(0), calls=str(calls))
    node.plan(node.state(node.model(device="cpu")))
    assert not calls.exists()
    node.plan(node.state(node.model()))
    assert sorted(line.split("=")[0] for line in calls.read_text().splitlines()) == [
        "--query-compute-apps",
        "--query-gpu",
    ]


def test_a_broken_driver_stops_nobody(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    pid = node.engine()["pid"]
    node.gpus(replies={"": {"code": 18, "error": "Failed to initialize NVML: Driver/library version mismatch\n"}})
    result = node.llmgw("plan", state, code=1)
    assert "mismatch" in result.out
    assert node.llmgw("apply", state, code=1)
    status = node.llmgw("status", "-o", "json", code=1).json()["engines"]
    assert [(row["engine"], row["pid"], row["phase"]) for row in status] == [("chat@0", pid, "ready")]


def test_records_of_another_boot_name_nobody_not_even_a_process_with_pid_and_ticks(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    folder = node.state_dir / "engines/chat@0"
    records = {name: json.loads((folder / name).read_text()) for name in ("pid.json", "phase.json")}
    node.kill(node.supervisor_of(node.engine()["pid"]))
    node.kill(records["pid.json"]["pid"])
    with procs.listener(node.port()) as stranger:
        identity = {"pid": stranger, "ticks": procs.ticks_of(stranger)}
        before = {"boot_id": "00000000-0000-4000-8000-000000000000"}
        named = {"pgid": stranger, "sid": stranger, "members": [[stranger, identity["ticks"]]], "supervisor": identity}
        for name, more in (("pid.json", identity | named), ("phase.json", {"supervisor": identity})):
            (folder / name).write_text(json.dumps(records[name] | before | more))
        assert "not running: it ended with the node's last boot" in node.llmgw("plan", state).out
        node.llmgw("stop", "chat")
        node.apply(state)
        assert procs.is_alive(stranger)
    assert node.engine()["phase"] == "ready"


# -- elsewhere


def test_a_recorded_node_is_planned_for_anywhere(node: Node) -> None:
    key = node.root / "key"
    key.write_text("canary")
    key.chmod(0o600)
    chat = node.model(api_key={"file": str(key)})
    state = node.state(chat)
    node.apply(state)
    snapshot = node.root / "snapshot.json"
    snapshot.write_text(node.llmgw("agent", "snapshot").out)
    assert "canary" not in snapshot.read_text()
    key.unlink()
    node.state_dir = node.env["LLMGW_STATE_DIR"] = str(node.root / "nowhere")  # type: ignore[assignment]
    node.without_gpus()
    offline = node.llmgw("plan", state, "--from", snapshot)
    assert offline.out == "No changes. 1 engine runs as the state file says.\n"
    node.state(chat | {"max_model_len": 2048})
    assert "-/+ chat@0" in node.llmgw("plan", state, "--from", snapshot).out
    node.state(chat, node={"name": "gpu-99"})
    assert "other-node" in node.llmgw("plan", state, "--from", snapshot).out
    node.env["LLMGW_STATE_DIR"] = str(node.root / "state")


def test_the_example_of_a_whole_node_plans_against_its_recording(node: Node) -> None:
    node.env["PATH"] = "/nonexistent"
    result = node.llmgw("plan", ROOT / "states/node.yaml", "--from", ROOT / "states/node.snapshot.json")
    assert "Plan: " in result.out
    assert "secret-not-compared" not in result.out
    assert not os.path.exists(node.root / "state")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "it is not JSON", id="empty"),
        pytest.param("{}", "it is no snapshot of this version", id="another-document"),
        pytest.param("[" * 100_000, "it is not JSON", id="deep"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused(node: Node, text: str, words: str) -> None:
    path = node.root / "snapshot.json"
    path.write_text(text)
    assert words in node.llmgw("plan", node.state(node.model()), "--from", path, code=3).err


def test_a_file_that_args_name_must_be_there(node: Node) -> None:
    chat = node.model(args=["--chat-template", {"file": "./t.jinja"}])
    state = node.state(chat, node.model("other"))
    result = node.llmgw("plan", state, code=1)
    assert f"{node.root}/t.jinja cannot be read" in result.out
    assert node.actions(state, code=1) == {"chat@0": "blocked", "other@0": "start"}
