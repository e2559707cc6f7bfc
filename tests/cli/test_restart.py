"""`llmgw restart`: afresh from the record, with what would be derived today, and of nobody else."""

from __future__ import annotations

import json

from tests.fakes import procs
from tests.fakes.node import Node


def test_an_engine_is_started_afresh_and_the_others_are_left_alone(node: Node) -> None:
    state = node.state(node.model(), node.model("other"))
    node.apply(state)
    before = node.status()
    result = node.llmgw("restart", "chat")
    assert "-/+ chat@0  replace  restarted by hand" in result.out
    after = node.status()
    assert after["chat@0"]["pid"] != before["chat@0"]["pid"]
    assert after["other@0"]["pid"] == before["other@0"]["pid"]
    assert node.actions(state) == {}


def test_it_needs_no_state_file_and_takes_over_what_is_derived_today(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    other = node.root / "other"
    other.mkdir()
    (other / "vllm").symlink_to(node.bin / "vllm")
    node.env["PATH"] = f"{other}:{node.bin}"
    assert "~ at next start" in node.llmgw("plan", state).out
    state.unlink()
    node.llmgw("restart", "chat@0")
    assert f"{other}/vllm serve" in node.pids()[node.engine()["pid"]]
    node.state(chat)
    assert "~ at next start" not in node.llmgw("plan", state).out


def test_a_failed_engine_gets_another_chance_and_its_restarts_count_anew(node: Node) -> None:
    node.apply(node.state(node.model(stub={"EXIT": "7@0.1", "LISTEN_DELAY": 60})), code=1)
    result = node.llmgw("restart", "chat", code=1)
    assert "failed: chat@0  start: exit code 7" in result.out
    node.tell(EXIT="", LISTEN_DELAY=0)
    node.llmgw("restart", "chat")
    assert (node.engine()["phase"], node.engine()["restarts"]) == ("ready", 0)


def test_a_restart_in_vain_is_tried_once_more_and_said(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.tell(EXIT="7@0.1", LISTEN_DELAY=60)
    result = node.llmgw("restart", "chat", code=1)
    assert "its previous launch does not get ready either: exit code 7" in result.out
    assert node.engine()["phase"] == "failed"


def test_it_tells_programs_in_events_and_the_quiet_nothing(node: Node) -> None:
    node.apply(node.state(node.model()))
    events = [json.loads(line) for line in node.llmgw("restart", "chat", "-o", "json").out.splitlines()]
    assert (events[0]["event"], events[-1]["event"]) == ("plan", "summary")
    assert node.llmgw("restart", "chat", "-q").text == ""


def test_no_wait_and_timeout(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.tell(LISTEN_DELAY=2)
    assert "not waited for" in node.llmgw("restart", "chat", "--no-wait").out
    assert node.engine()["phase"] in ("starting", "loading")
    result = node.llmgw("restart", "chat", "--timeout", "1s", code=1)
    assert "the time-out of 1 s is over" in result.out
    node.llmgw("wait")


def test_an_engine_whose_executable_is_gone_is_kept(node: Node) -> None:
    (node.root / "vllm").symlink_to(node.bin / "vllm")
    node.apply(node.state(node.model(executable=str(node.root / "vllm"))))
    pid = node.engine()["pid"]
    (node.root / "vllm").unlink()
    result = node.llmgw("restart", "chat", code=1)
    assert f"{node.root}/vllm: No such file or directory" in result.out
    assert procs.is_alive(pid)


def test_names_and_lost_records(node: Node) -> None:
    assert "unknown engine: chat" in node.llmgw("restart", "chat", code=3).err
    node.apply(node.state(node.model()))
    (node.state_dir / "engines/chat@0/spec.json").write_text("{}")
    result = node.llmgw("restart", "chat", code=1)
    assert "cannot restart chat@0: its record is lost; apply the state file instead" in result.err
    assert len(node.stubs()) == 1


def test_every_field_of_a_record_survives_a_restart(node: Node) -> None:
    template = node.root / "t.jinja"
    template.write_text("hello")
    key = node.root / "key"
    key.write_text("canary")
    key.chmod(0o600)
    chat = node.model(
        served_model_name=["chat", "gpt"],
        tensor_parallel_size=2,
        max_model_len=4096,
        gpu_memory_utilization=0.5,
        dtype="bfloat16",
        gpus={"class": "h100-80g"},
        api_key={"file": str(key)},
        args=["--enable-prefix-caching", "--chat-template", {"file": "./t.jinja"}],
        labels={"team": "a"},
        restart={"max_restarts": 3},
    )
    state = node.state(chat)
    node.apply(state)
    line = node.pids()[node.engine()["pid"]]
    template.unlink()
    node.llmgw("restart", "chat", code=None)
    template.write_text("hello")
    node.llmgw("restart", "chat")
    assert node.pids()[node.engine()["pid"]] == line
    assert node.actions(state) == {}
