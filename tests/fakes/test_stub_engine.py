"""The stub engine does what its knobs say; a harness that lies proves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from tests.fakes.procs import command_line, free_port, is_alive, kill, listening_ports, processes_of, until
from tests.fakes.stub_engine import install_engines

Start = Callable[..., "Running"]


class Running:
    """A stub that was started by this test."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        self.process, self.port, self.folder = process, port, folder
        self.pid = process.pid

    def get(self, path: str, key: str = "", timeout: float = 5) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
            reply = connection.getresponse()
            return reply.status, reply.read(200).decode()
        finally:
            connection.close()

    def until_listening(self) -> Running:
        until(lambda: self.port in listening_ports(), what=f"no listener on {self.port}: {self.log}")
        return self

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def workers(self) -> dict[int, str]:
        return {pid: line for pid, line in processes_of(self.folder).items() if pid != self.pid}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    install_engines(tmp_path)
    began: list[subprocess.Popen[bytes]] = []

    def start(*flags: str, program: str = "vllm", **knobs: object) -> Running:
        port = free_port()
        argv = [str(tmp_path / program), "serve", "org/model", "--port", str(port), *flags]
        env = {f"STUB_{name}": str(value) for name, value in knobs.items() if name.isupper()}
        env |= {name.upper(): str(value) for name, value in knobs.items() if name.islower()}
        with open(tmp_path / "log", "wb") as log:
            process = subprocess.Popen(argv, env=env, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True)
        began.append(process)
        return Running(process, port, tmp_path)

    yield start
    while left := processes_of(tmp_path):
        for pid in left:
            kill(pid, tmp_path)
            for process in began:
                process.poll()


def ids(body: str) -> list[str]:
    return [row["id"] for row in json.loads(body)["data"]]


def test_it_serves_health_and_the_served_names(start: Start) -> None:
    engine = start("--served-model-name", "chat", "small").until_listening()
    assert engine.get("/health") == (200, "")
    status, body = engine.get("/v1/models")
    assert (status, ids(body)) == (200, ["chat", "small"])
    assert engine.get("/nowhere")[0] == 404


@pytest.mark.parametrize(
    ("program", "flags", "expected"),
    [
        pytest.param("vllm", (), ["org/model"], id="vllm-without-a-name"),
        pytest.param("sglang", ("--model-path", "org/other"), ["org/other"], id="sglang-without-a-name"),
        pytest.param("llama-server", ("--alias", "tiny,small"), ["tiny", "small"], id="llama-server-with-aliases"),
    ],
)
def test_each_command_line_names_its_model(
    start: Start, program: str, flags: tuple[str, ...], expected: list[str]
) -> None:
    assert ids(start(*flags, program=program).until_listening().get("/v1/models")[1]) == expected


@pytest.mark.parametrize(
    ("program", "key", "guarded", "open_path"),
    [
        pytest.param("vllm", {"vllm_api_key": "k"}, "/v1/models", "/nowhere", id="vllm-guards-v1"),
        pytest.param("sglang", {}, "/nowhere", "/health", id="sglang-guards-all-but-health"),
        pytest.param("llama-server", {"llama_api_key": "k"}, "/nowhere", "/v1/models", id="llama-server-opens-models"),
    ],
)
def test_a_key_guards_what_the_engine_of_that_name_guards(
    start: Start, program: str, key: dict[str, str], guarded: str, open_path: str
) -> None:
    flags = () if key else ("--api-key", "k")
    engine = start(*flags, program=program, **key).until_listening()
    assert engine.get(guarded)[0] == 401
    assert engine.get(guarded, key="wrong")[0] == 401
    assert engine.get(guarded, key="k")[0] in (200, 404)
    assert engine.get(open_path)[0] in (200, 404)


def test_it_binds_early_and_listens_late_as_vllm_does(start: Start) -> None:
    engine = start(BIND_EARLY=1, LISTEN_DELAY=60)
    until(lambda: not _can_bind(engine.port))
    assert engine.port not in listening_ports()


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_taken_port_ends_it_with_the_reason(start: Start) -> None:
    first = start().until_listening()
    second = start("--port", str(first.port))
    assert second.process.wait(10) == 1
    assert "Address already in use" in second.log


def test_while_it_loads_every_path_says_503(start: Start) -> None:
    engine = start(LOAD_DELAY=60).until_listening()
    assert [engine.get(path)[0] for path in ("/health", "/v1/models", "/nowhere")] == [503, 503, 503]


def test_while_it_warms_up_only_health_says_503(start: Start) -> None:
    engine = start(WARMUP=60, program="sglang").until_listening()
    assert [engine.get(path)[0] for path in ("/health", "/v1/models")] == [503, 200]


def test_knobs_can_be_turned_while_it_runs(start: Start, tmp_path: Path) -> None:
    control = tmp_path / "control"
    engine = start(CONTROL=control).until_listening()
    assert engine.get("/health")[0] == 200
    control.write_text('{"STUB_HEALTH": "500"}')
    assert engine.get("/health")[0] == 500


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        pytest.param({"MODELS": '["other"]'}, (200, '{"object": "list", "data": [{"id": "other"'), id="other-id"),
        pytest.param({"MODELS_STATUS": 500}, (500, '{"object"'), id="status"),
        pytest.param({"MODELS_BODY": "<html>"}, (200, "<html>"), id="no-json"),
        pytest.param({"MODELS_BODY": "huge"}, (200, " " * 200), id="huge"),
        pytest.param({"MODELS_BODY": "endless"}, (200, " " * 200), id="endless"),
    ],
)
def test_the_models_list_can_be_wrong(start: Start, knobs: dict[str, object], expected: tuple[int, str]) -> None:
    status, body = start(**knobs).until_listening().get("/v1/models")
    assert (status, body[: len(expected[1])]) == expected


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param({"HEALTH_DELAY": 60}, id="slow"),
        pytest.param({"HEALTH_BODY": "stall"}, id="first-byte-only"),
        pytest.param({"MUTE": "silent"}, id="accepts-and-is-silent"),
        pytest.param({"MUTE": "full"}, id="backlog-full"),
    ],
)
def test_an_answer_can_be_kept_back(start: Start, knobs: dict[str, object]) -> None:
    engine = start(**knobs).until_listening()

    def is_kept_back() -> bool:  # at the second look, when its own connections were slow to fill the backlog
        try:
            engine.get("/health", timeout=0.3)
        except (TimeoutError, HTTPException):
            return True
        return False

    until(is_kept_back)


def test_sigterm_ends_it_and_its_workers(start: Start) -> None:
    engine = start(WORKERS=2).until_listening()
    assert len(engine.workers) == 2
    engine.process.terminate()
    assert engine.process.wait(5) == 0
    until(lambda: not engine.workers)


def test_workers_outlive_a_killed_leader(start: Start) -> None:
    engine = start(WORKERS=1).until_listening()
    (worker,) = engine.workers
    assert os.getpgid(worker) == engine.pid
    engine.process.kill()
    engine.process.wait()
    assert is_alive(worker)


@pytest.mark.parametrize(
    ("program", "expected"), [pytest.param("vllm", 0, id="vllm"), pytest.param("sglang", -signal.SIGKILL, id="sglang")]
)
def test_a_dead_worker_ends_the_leader_in_the_engines_own_way(start: Start, program: str, expected: int) -> None:
    engine = start(program=program, WORKERS=2).until_listening()
    os.kill(min(engine.workers), signal.SIGKILL)
    assert engine.process.wait(5) == expected


def test_a_worker_can_leave_session_group_parent_and_name(start: Start) -> None:
    engine = start(
        WORKERS=1, WORKER_SETSID=1, WORKER_DOUBLE_FORK=1, WORKER_RENAME=1, WORKER_IGNORE_TERM=1
    ).until_listening()
    until(lambda: any(line.startswith("VLLM::Worker_TP0") for line in engine.workers.values()))
    (worker,) = engine.workers
    assert os.getsid(worker) != engine.pid
    assert Path(f"/proc/{worker}/environ").read_bytes() == b""
    assert "Worker_TP0" in command_line(worker)
    until(lambda: int(_signals(worker, "SigIgn"), 16) >> signal.SIGTERM - 1 & 1)


def _signals(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(name))


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param({"IGNORE_TERM": "always"}, id="always"),
        pytest.param({"IGNORE_TERM": "loading", "LOAD_DELAY": 60}, id="while-loading"),
        pytest.param({"TERM_DELAY": 60}, id="drains"),
    ],
)
def test_sigterm_can_be_without_effect(start: Start, knobs: dict[str, object]) -> None:
    engine = start(**knobs).until_listening()
    engine.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        engine.process.wait(0.3)


def test_sigterm_counts_again_once_it_has_loaded(start: Start) -> None:
    engine = start(IGNORE_TERM="loading").until_listening()
    engine.process.terminate()
    assert engine.process.wait(5) == 0


@pytest.mark.parametrize(
    ("knob", "expected"),
    [
        pytest.param("7@0.05", 7, id="exit-code"),
        pytest.param("0@0", 0, id="exit-0-that-is-a-crash"),
        pytest.param("SIGSEGV@0.05", -signal.SIGSEGV, id="signal"),
    ],
)
def test_it_ends_on_command(start: Start, knob: str, expected: int) -> None:
    assert start(EXIT=knob).process.wait(5) == expected


def test_the_root_cause_stands_far_above_the_last_line(start: Start) -> None:
    engine = start(EXIT="1@0", ERROR="ValueError: no room", LISTEN_DELAY=60)
    assert engine.process.wait(5) == 1
    lines = engine.log.splitlines()
    cause = next(number for number, line in enumerate(lines) if "ValueError: no room" in line)
    assert len(lines) - cause == 202
    assert lines[-1].startswith("RuntimeError: Engine core initialization failed")


def test_a_flag_can_be_unknown_to_it(start: Start) -> None:
    engine = start("--new-flag=1", REJECT="--new-flag")
    assert engine.process.wait(5) == 2
    assert engine.log == "vllm: error: unrecognized arguments: --new-flag\n"


@pytest.mark.parametrize(
    ("style", "line"),
    [
        pytest.param("lines", "xxxxxxxxxxxxxxxxxxx\n", id="lines"),
        pytest.param("progress", "xxxxxxxxxxxxxxxxxxx\r", id="carriage-returns"),
        pytest.param("escapes", "\x1b[31mxxxxxxxxxx\x1b[0m\n", id="escapes"),
    ],
)
def test_the_log_has_the_size_and_style_asked_for(start: Start, style: str, line: str) -> None:
    engine = start(LOG_BYTES=20_000, LOG_LINE_BYTES=20, LOG_STYLE=style)
    until(lambda: engine.log.endswith("\nthe newest line of the log\n"))
    log = (engine.folder / "log").read_bytes().decode()
    body = log.partition("startup complete.\n")[2].removesuffix("\nthe newest line of the log\n")
    assert len(body) == 20_000
    assert body.startswith(line * 2)


def test_it_shows_signs_of_life_while_it_loads(start: Start) -> None:
    engine = start(LISTEN_DELAY=60, LOG_EVERY=0.01)
    until(lambda: "shards: 2 done" in engine.log)


def test_two_can_share_a_port_with_reuseport(start: Start) -> None:
    first = start(REUSEPORT=1).until_listening()
    second = start("--port", str(first.port), REUSEPORT=1)
    until(lambda: "startup complete" in second.log)


def test_it_can_listen_on_more_ports(start: Start) -> None:
    more = free_port(2)
    start(EXTRA_PORTS=f"{more},{more + 1}").until_listening()
    until(lambda: {more, more + 1} <= listening_ports())


def test_its_view_shows_what_it_was_given(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "view"
    engine = start("--dtype", "auto", VIEW=path, hf_hub_offline="1")
    until(path.exists)
    view = json.loads(path.read_text())
    assert view["argv"][1:] == ["serve", "org/model", "--port", str(engine.port), "--dtype", "auto"]
    assert view["env"] == {"HF_HUB_OFFLINE": "1", "STUB_VIEW": str(path), "LC_CTYPE": "C.UTF-8"}
    assert view["pid"] == view["sid"] == view["pgid"] == engine.pid
    assert view["ppid"] == os.getpid()
    assert view["cwd"] == str(tmp_path)
    assert view["fds"].keys() == {"0", "1", "2"}
    assert set(view["limits"]) == {"nofile", "memlock", "core"}
    assert set(view["signals"]) == {"SigBlk", "SigIgn", "SigCgt"}


def test_memory_is_claimed_by_the_workers_each_on_its_gpus(start: Start, tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    claims.mkdir()
    engine = start(
        WORKERS=2,
        MIB=30_000,
        DRAIN_POLLS=3,
        cuda_visible_devices="GPU-a,GPU-b",
        fake_gpu_claims=claims,
    ).until_listening()
    until(lambda: len(list(claims.glob("*.json"))) == 2)
    found = [json.loads(path.read_text()) for path in claims.glob("*.json")]
    assert {claim["pid"] for claim in found} == set(engine.workers)
    assert sorted(claim["gpus"] for claim in found) == [["GPU-a"], ["GPU-b"]]
    assert {(claim["mib"], claim["drain_polls"]) for claim in found} == {(30_000, 3)}


def test_version_is_answered_without_starting_anything(tmp_path: Path) -> None:
    install_engines(tmp_path)
    answer = subprocess.run([tmp_path / "vllm", "--version"], env={"STUB_VERSION": "0.34.1"}, capture_output=True)
    assert (answer.returncode, answer.stdout) == (0, b"0.34.1\n")
