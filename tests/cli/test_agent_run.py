"""The resident loop as its user meets it: real processes on a made-up node."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.fakes.agent import RunningAgent
from tests.fakes.git import Origin
from tests.fakes.node import Node
from tests.fakes.nvidia_smi import h100
from tests.fakes.procs import until

Start = Callable[..., RunningAgent]


@pytest.fixture
def start(node: Node) -> Iterator[Start]:
    """Starts agents on the node; none of them outlives the test."""
    agents: list[RunningAgent] = []

    def begin(*arguments: object) -> RunningAgent:
        agents.append(RunningAgent(node, *arguments))
        return agents[-1]

    yield begin
    for agent in agents:
        agent.kill()


def await_phase(node: Node, engine: str, phase: str, seconds: float = 15) -> None:
    until(lambda: node.status().get(engine, {}).get("phase") == phase, seconds, f"{engine} is {phase}")


def test_it_follows_its_file(node, start):
    chat, code = node.model("chat"), node.model("code")
    state = node.state(chat)
    agent = start(state)
    await_phase(node, "chat@0", "ready")
    chat_pid = node.engine("chat@0")["pid"]
    node.state(chat, code)
    await_phase(node, "code@0", "ready")
    assert node.engine("chat@0")["pid"] == chat_pid
    node.state({**chat, "max_model_len": 4096}, code)
    until(lambda: node.engine("chat@0")["pid"] not in (None, chat_pid), what="chat is replaced")
    node.state({**chat, "max_model_len": 4096})
    until(lambda: "code@0" not in node.status(), what="code is stopped")
    assert [event["engine"] for event in agent.said("action_started")] == ["chat@0", "code@0", "chat@0", "code@0"]


def test_a_bad_file_stops_nothing_and_is_complained_of_once(node, start):
    chat, code = node.model("chat"), node.model("code")
    state = node.state(chat, code)
    agent = start(state, "--interval", "1s")
    await_phase(node, "chat@0", "ready")
    await_phase(node, "code@0", "ready")
    before = node.stubs()
    for number, (text, words) in enumerate(
        [("models: [\n", "yaml-syntax"), ("", "empty"), ("version: 1\nmodels: []\n", "has no models")], start=1
    ):
        state.write_text(text)
        refusal = agent.await_event("state_refused", words)
        assert refusal["message"].endswith("the last good state stays in force")
        assert len(agent.said("state_refused")) == number
    state.unlink()
    agent.await_event("state_refused", "No such file")
    assert node.stubs() == before
    node.state(chat, code)
    agent.await_event("state_accepted", count=2)
    assert node.stubs() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_loop_and_leaves_engines_serving(node, start, number):
    agent = start(node.state(node.model("chat")))
    await_phase(node, "chat@0", "ready")
    pid = node.engine("chat@0")["pid"]
    assert agent.end(number) == 0
    assert agent.events[-1]["event"] == "agent_ended"
    assert node.engine("chat@0")["pid"] == pid
    assert node.supervisor_of(pid)


def test_it_ends_at_once_while_a_tool_hangs(node, start):
    node.gpus(*map(h100, range(8)), hang=30)
    agent = start(node.state(node.model("chat")))
    agent.await_event("agent_started")
    assert agent.end() == 0


def test_its_restart_and_its_sudden_death_change_nothing(node, start):
    state = node.state(node.model("chat"))
    agent = start(state)
    await_phase(node, "chat@0", "ready")
    agent.kill()
    before = node.stubs()
    applied = (node.state_dir / "applied" / "applied.json").read_bytes()
    agent = start(state, "--interval", "1s")
    agent.await_event("state_accepted")
    agent.tell(signal.SIGHUP)
    agent.await_event("reconcile_asked")
    assert agent.end() == 0
    assert agent.said("action_started") == []
    assert node.stubs() == before
    assert (node.state_dir / "applied" / "applied.json").read_bytes() == applied


def test_an_engine_whose_supervisor_was_killed_gets_a_new_one(node, start):
    start(node.state(node.model("chat")), "--interval", "1h")
    await_phase(node, "chat@0", "ready")
    pid = node.engine("chat@0")["pid"]
    supervisor = node.supervisor_of(pid)
    node.kill(supervisor)
    await_phase(node, "chat@0", "ready")
    assert node.engine("chat@0")["pid"] == pid


def test_an_engine_that_ended_unwatched_is_started_again(node, start):
    agent = start(node.state(node.model("chat")), "--interval", "1h")
    await_phase(node, "chat@0", "ready")
    pid = node.engine("chat@0")["pid"]
    node.kill(node.supervisor_of(pid))
    node.kill(pid)
    agent.await_event("action_started", "chat@0: start", count=2)
    await_phase(node, "chat@0", "ready")


def test_a_crash_is_left_to_the_supervisor(node, start):
    agent = start(node.state(node.model("chat")), "--interval", "1s")
    await_phase(node, "chat@0", "ready")
    pid = node.engine("chat@0")["pid"]
    node.kill(pid)
    until(lambda: node.engine("chat@0")["restarts"] == 1 and node.engine("chat@0")["phase"] == "ready", 15)
    assert len(agent.said("action_started")) == 1


def test_what_a_person_stops_stays_stopped_until_a_person_starts_it(node, start):
    agent = start(node.state(node.model("chat")), "--interval", "1s")
    await_phase(node, "chat@0", "ready")
    node.llmgw("stop", "chat", "--lock-timeout", "10s")
    agent.await_event("left_alone", "held: it was stopped by hand")
    assert node.engine("chat@0")["phase"] == "held"
    node.llmgw("restart", "chat", "--lock-timeout", "10s")
    assert node.engine("chat@0")["phase"] == "ready"
    assert len(agent.said("action_started")) == 1


def test_a_launch_that_failed_waits_for_its_program_or_a_person(node, start):
    chat = node.model("chat", stub={"EXIT": "2@0", "ERROR": "boom"})
    state = node.state(chat)
    agent = start(state, "--interval", "1s")
    agent.await_event("phase", "chat@0: failed")
    agent.await_event("left_alone", "it failed and is not tried again as it stands")
    agent.end()
    agent = start(state, "--interval", "1s")
    agent.await_event("left_alone")
    node.tell("chat", EXIT="")
    program = node.bin / "vllm"
    fresh = program.with_suffix(".new")
    shutil.copy2(program, fresh)
    fresh.rename(program)
    agent.await_event("action_started", "chat@0: start")
    await_phase(node, "chat@0", "ready")


def test_a_replacement_that_fails_comes_back_as_it_was_and_is_not_tried_again(node, start):
    chat = node.model("chat")
    state = node.state(chat)
    agent = start(state, "--interval", "1s")
    await_phase(node, "chat@0", "ready")
    node.state({**chat, "env": {**chat["env"], "STUB_EXIT": "2@0"}})
    agent.await_event("left_alone", "its replacement failed and is not tried again as it stands")
    await_phase(node, "chat@0", "ready")
    agent.end()
    agent = start(state, "--interval", "1s")
    agent.await_event("left_alone", "its replacement failed")
    assert agent.said("action_started") == []


def test_a_card_that_comes_back_is_used_at_the_next_look(node, start):
    node.gpus(h100(0))
    agent = start(node.state(node.model("chat", tensor_parallel_size=2)), "--interval", "1s")
    agent.await_event("diagnostic", "chat@0")
    assert node.status() == {}
    node.gpus(*map(h100, range(8)))
    await_phase(node, "chat@0", "ready")


def test_sighup_looks_at_once(node, start):
    node.gpus(h100(0))
    agent = start(node.state(node.model("chat", tensor_parallel_size=2)), "--interval", "1h")
    agent.await_event("diagnostic", "chat@0")
    node.gpus(*map(h100, range(8)))
    agent.tell(signal.SIGHUP)
    await_phase(node, "chat@0", "ready")


def test_an_apply_by_hand_and_the_agent_never_start_an_engine_twice(node, start):
    state = node.state(*(node.model(name, stub={"LOAD_DELAY": 1}) for name in ("chat", "code")))
    start(state, "--interval", "1s")
    node.llmgw("apply", state, "--lock-timeout", "20s", code=None)
    await_phase(node, "chat@0", "ready")
    await_phase(node, "code@0", "ready")
    assert len(node.stubs()) == 2


def test_an_engine_that_shows_no_sign_of_life_is_replaced_where_the_state_asks(node, start):
    chat = node.model("chat", liveness={"failures": 1})
    state = node.state(chat, node.model("code"))
    agent = start(state, "--interval", "1h")
    await_phase(node, "chat@0", "ready")
    await_phase(node, "code@0", "ready")
    pids = {name: row["pid"] for name, row in node.status().items()}
    for name in ("chat", "code"):
        node.tell(name, HEALTH=503)
    agent.await_event("pulse", "chat@0: degraded: /health answers 503")
    assert node.engine("code@0")["phase"] == "degraded"
    started = agent.await_event("action_started", "chat@0: replace: no sign of life in 1 rounds", seconds=40)
    assert started["action"] == "replace"
    node.tell("chat")
    until(lambda: node.engine("chat@0")["pid"] not in (None, pids["chat@0"]), 15)
    await_phase(node, "chat@0", "ready")
    assert node.engine("code@0")["pid"] == pids["code@0"]


def test_a_repository_is_followed_and_a_bad_commit_refused(node, start, tmp_path):
    origin = Origin(tmp_path)
    (node.bin / "git").symlink_to(shutil.which("git") or "git")
    node.env |= {name: value for name, value in origin.env.items() if name.startswith("GIT_")}
    chat, code = node.model("chat"), node.model("code")
    first = origin.commit({"nodes/gpu.yaml": json.dumps({"version": 1, "models": [chat]})})
    options = ("--git", origin.work, "--ref", "main", "--path", "nodes/gpu.yaml", "--interval", "1s")
    agent = start(*options)
    await_phase(node, "chat@0", "ready")
    assert agent.said("state_accepted")[0]["commit"] == first
    bad = origin.commit({"nodes/gpu.yaml": "models: [\n"})
    agent.await_event("state_refused", f"commit {bad[:12]} of main is refused")
    good = origin.commit({"nodes/gpu.yaml": json.dumps({"version": 1, "models": [chat, code]})})
    await_phase(node, "code@0", "ready")
    agent.await_event("state_accepted", count=2)
    applied = json.loads((node.state_dir / "applied" / "applied.json").read_text())
    assert (applied["commit"], applied["file"]) == (good, str(node.state_dir / "git" / "tree" / "nodes" / "gpu.yaml"))
    origin.work.rename(tmp_path / "away")
    agent.await_event("state_refused", "cannot fetch main from")
    agent.end()
    agent = start(*options)
    agent.await_event("state_refused", "cannot fetch main from")
    assert len(node.stubs()) == 2


def test_a_second_agent_is_refused_and_names_the_first(node, start):
    state = node.state(node.model("chat"))
    start(state).await_event("agent_started")
    assert "llmgw agent run" in node.llmgw("agent", "run", state, code=4).err


def test_people_get_lines_with_their_time_in_utc(node):
    process = node.begin("agent", "run", node.state(node.model("chat")))
    lines = []
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if lines[-1].endswith("chat@0: ready"):
            break
    process.terminate()
    assert process.communicate(timeout=10)[0] == ""
    assert all(line[:11].startswith("20") and line[10] == "T" and line[19:21] == "Z " for line in lines)
    assert [line[21:] for line in lines if "chat@0" in line] == [
        "chat@0: start: not running",
        "chat@0: starting",
        "chat@0: ready",
    ]


def test_that_nobody_reads_what_it_says_ends_nothing(node):
    process = node.begin("agent", "run", node.state(node.model("chat")))
    process.stderr.close()
    await_phase(node, "chat@0", "ready")
    assert process.poll() is None
    process.terminate()
    assert process.wait(10) == 0
    process.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 64, "name a state file, or a repository"),
        (["-"], 64, "name a state file, or a repository"),
        (["node.yaml", "--ref", "main"], 64, "name a state file, or a repository"),
        (["--git", "https://git.example.org/a"], 64, "--git goes with --ref and --path"),
        (["--git", "https://git.example.org/a", "--ref", "main"], 64, "--git goes with --ref and --path"),
        (["node.yaml", "--git", "/srv/a", "--ref", "main", "--path", "b"], 64, "with no state file beside it"),
        (["node.yaml", "--interval", "0"], 64, "an interval of less than a second is no pause"),
        (["--git", "--upload-pack=x", "--ref", "main", "--path", "a"], 3, "name a repository by its URL or path"),
        (["--git", "/srv/a", "--ref=-f", "--path", "a"], 3, "name a branch, a tag or a commit"),
        (["--git", "/srv/a", "--ref", "main", "--path", "../a"], 3, "by its path within the repository"),
    ],
)
def test_a_command_line_that_says_nothing_sensible_is_refused(node, arguments, code, words):
    assert words in node.llmgw("agent", "run", *arguments, code=code).err
    assert not node.state_dir.exists()
