"""The command line as a whole: exit codes, messages without tracebacks, and callers in odd circumstances."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes import procs
from tests.fakes.node import LLMGW, Node
from tests.fakes.nvidia_smi import a100


def bad_file(node: Node) -> list[object]:
    return ["plan", node.state(node.model(port=8000), node.model("other", port=8000))]


def changes(node: Node) -> list[object]:
    return ["plan", node.state(node.model()), "--detailed-exitcode"]


def blocked(node: Node) -> list[object]:
    node.gpus(a100(0))
    return ["plan", node.state(node.model(quantization="fp8")), "--detailed-exitcode"]


def other_node(node: Node) -> list[object]:
    return ["apply", node.state(node.model(), node={"name": "gpu-99"})]


def locked(node: Node) -> list[object]:
    state = node.state(node.model(stub={"LISTEN_DELAY": 60}))
    node.begin("apply", state)
    procs.until(node.stubs)
    return ["apply", state]


def broken_driver(node: Node) -> list[object]:
    node.gpus(code=18, replies={"": {"code": 18, "error": "Failed to initialize NVML: Driver/library mismatch\n"}})
    return ["plan", node.state(node.model())]


# Contract §3, a row for each way to an exit code. The codes of signals are in test_apply_interrupted.py.
@pytest.mark.parametrize(
    ("code", "command"),
    [
        pytest.param(0, lambda node: ["plan", node.state(node.model())], id="0-a-plan-with-changes-is-shown"),
        pytest.param(0, lambda node: ["apply", node.state(node.model())], id="0-done"),
        pytest.param(0, lambda node: ["--help"], id="0-help"),
        pytest.param(1, blocked, id="1-an-engine-is-blocked"),
        pytest.param(
            1, lambda node: ["apply", node.state(node.model(stub={"EXIT": "1@0"}))], id="1-an-engine-did-not-get-ready"
        ),
        pytest.param(1, broken_driver, id="1-the-node-could-not-be-read"),
        pytest.param(2, changes, id="2-changes-and-nothing-blocked"),
        pytest.param(3, bad_file, id="3-an-invalid-state-file"),
        pytest.param(3, lambda node: ["plan", "/nonexistent.yaml"], id="3-a-missing-state-file"),
        pytest.param(3, other_node, id="3-a-guard"),
        pytest.param(3, lambda node: ["stop", "nobody"], id="3-an-unknown-engine"),
        pytest.param(4, locked, id="4-another-apply-holds-the-lock"),
        pytest.param(64, lambda node: ["plan"], id="64-an-argument-is-missing"),
        pytest.param(64, lambda node: ["plan", "x.yaml", "--no-such-option"], id="64-an-unknown-option"),
        pytest.param(64, lambda node: ["destroy"], id="64-an-unknown-verb"),
        pytest.param(64, lambda node: ["apply", "x.yaml", "--timeout", "soon"], id="64-a-duration-that-is-none"),
        pytest.param(64, lambda node: ["stop"], id="64-nothing-named-to-stop"),
    ],
)
def test_exit_code(node: Node, code: int, command: Callable[[Node], list[object]]) -> None:
    result = node.llmgw(*command(node), code=code)
    assert result.text.strip()


def test_the_help_explains_every_exit_code(node: Node) -> None:
    text = node.llmgw("--help").out
    assert re.findall(r"^ +(\d[\d, ]*?)  ", text, re.MULTILINE) == ["0", "1", "2", "3", "4", "64", "129, 130, 143"]


def test_a_usage_error_shows_the_usage_and_the_reason(node: Node) -> None:
    lines = node.llmgw("plan", "x.yaml", "--no-such-option", code=64).err.splitlines()
    assert lines[0].startswith("Usage: llmgw plan ")
    assert lines[-1].startswith("llmgw: No such option")


def test_all_that_is_wrong_with_a_file_comes_at_once_with_its_place(node: Node) -> None:
    path = node.root / "bad.yaml"
    path.write_text("version: 1\nmodels:\n  - name: chat\n    model: org/m\n    engine: vlm\n    prt: 1\n")
    result = node.llmgw("apply", path, code=3)
    assert f" {path}:5:13: models[0].engine: " in result.err
    assert f" {path}:6:5: models[0].prt: " in result.err
    assert result.out == ""
    assert not node.state_dir.exists()


# -- who calls


def run(node: Node, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A line of shell, with llmgw as $LLMGW."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        env={**node.env, "PATH": f"{node.bin}:/usr/bin:/bin", "LLMGW": LLMGW, **env},
        cwd=node.root,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
    )


def test_a_reader_that_has_seen_enough_changes_no_exit_code(node: Node) -> None:
    state = node.state(*(node.model(f"m{n}") for n in range(8)))
    done = run(node, f"$LLMGW plan {state} --detailed-exitcode -v | head -1")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("Plan for ")


@pytest.mark.parametrize("streams", ["| head -1", "2>&1 | head -1", "2>&1 >/dev/null | true"])
def test_an_apply_is_carried_out_also_when_nobody_reads_on(node: Node, streams: str) -> None:
    chat, bad = node.model(), node.model("bad", stub={"EXIT": "3@0.2", "LISTEN_DELAY": 60})
    done = run(node, f"$LLMGW apply {node.state(chat, bad)} {streams}")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert {name: row["phase"] for name, row in node.status().items()} == {"bad@0": "failed", "chat@0": "ready"}


def test_a_plan_that_cannot_be_written_is_an_error(node: Node) -> None:
    done = run(node, f"$LLMGW plan {node.state(node.model())} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "llmgw: cannot write to standard output: No space left on device\n"


def test_an_apply_whose_plan_cannot_be_shown_does_nothing(node: Node) -> None:
    done = run(node, f"$LLMGW apply {node.state(node.model())} >/dev/full")
    assert done.returncode == 1
    assert node.pids() == {}


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_hindrance_and_no_record_gets_its_number(node: Node, closed: str) -> None:
    view = node.root / "view.json"
    state = node.state(node.model(stub={"VIEW": view}))
    assert run(node, f"$LLMGW apply {state} -y {closed}").returncode == 0
    assert node.engine()["phase"] == "ready"
    assert {path for path in node.view(view)["fds"].values() if path.endswith(".json")} == set()
    assert run(node, f"$LLMGW plan {state} {closed}").returncode == 0
    assert run(node, f"$LLMGW status {closed}").returncode == 0
    assert run(node, f"$LLMGW stop chat {closed}").returncode == 0
    json.loads((node.state_dir / "applied/applied.json").read_text())


def test_a_state_from_a_closed_standard_input_is_refused(node: Node) -> None:
    done = run(node, "$LLMGW apply - <&-")
    assert done.returncode == 3
    assert "standard input" in done.stderr


def test_without_a_home_the_account_says_where_it_is(node: Node) -> None:
    script = f"unset HOME; $LLMGW apply {node.state(node.model())} && $LLMGW status"
    assert run(node, script, XDG_CACHE_HOME=str(node.root / "cache")).returncode == 0


def test_a_working_directory_that_is_gone_matters_only_where_a_path_is_relative(node: Node) -> None:
    state = node.state(node.model())
    (node.root / "gone").mkdir()
    leave = f"cd {node.root}/gone; rmdir {node.root}/gone"
    done = run(node, f"{leave}; $LLMGW apply {state} && $LLMGW status && $LLMGW stop chat")
    assert (done.returncode, done.stderr.count("shell-init")) == (0, done.stderr.count("shell-init"))
    (node.root / "gone").mkdir()
    done = run(node, f"{leave}; $LLMGW --help >/dev/null; $LLMGW plan node.yaml")
    assert done.returncode == 3
    (node.root / "gone").mkdir()
    done = run(node, f"{leave}; $LLMGW status --state-dir state")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("umask", ["000", "077"])
def test_the_umask_changes_no_mode(node: Node, umask: str) -> None:
    state = node.state(node.model())
    assert run(node, f"umask {umask}; $LLMGW apply {state}").returncode == 0
    modes = {oct(p.lstat().st_mode & 0o777) for p in node.state_dir.rglob("*") if p.is_dir() or p.is_file()}
    assert modes == {"0o700", "0o600"}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_locale_without_the_characters_shows_them_escaped(node: Node, encoding: str) -> None:
    state = node.state(node.model(labels={"team": "gr\u00fc\u00dfe \u2192"}))
    node.apply(state)
    node.state(node.model(labels={"team": "\u2192"}, port=node.engine()["port"]))
    done = run(node, f"$LLMGW plan {state}", PYTHONIOENCODING=encoding, LC_ALL="C")
    assert done.returncode == 0
    assert "\\u2192" in done.stdout


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_terminal_is_not_written_over(node: Node, columns: int) -> None:
    state = node.state(node.model(stub={"EXIT": "7@0.1", "LISTEN_DELAY": 60, "ERROR": "ValueError: " + "word " * 30}))
    for command in (["plan", state], ["apply", state]):
        node.env["COLUMNS"] = str(columns)
        lines = node.llmgw(*command, code=None).out.splitlines()
        words = [
            line for line in lines if str(node.root) not in line and not line.lstrip().startswith(("--", "ENGINE"))
        ]
        assert [line for line in words if len(line) > columns] == []


def test_no_colour_goes_into_a_pipe_unless_it_is_asked_for(node: Node) -> None:
    state = node.state(node.model())
    assert "\x1b[" not in node.llmgw("plan", state).out
    assert "\x1b[" in node.llmgw("plan", state, "--color", "always").out
    node.env["FORCE_COLOR"] = "1"
    assert "\x1b[" in node.llmgw("plan", state).out
    assert "\x1b[" not in node.llmgw("plan", state, "--color", "never").out


# -- the state directory


def test_a_state_directory_that_others_may_write_to_is_refused_before_any_signal(node: Node) -> None:
    state = node.state(node.model())
    node.apply(state)
    pid = node.engine()["pid"]
    node.state_dir.chmod(0o777)
    try:
        plan = node.llmgw("plan", state, code=1)
        assert f"cannot use {node.state_dir}: others may write to it (mode 0777)" in plan.out
        for command in (["apply", state], ["stop", "chat"], ["restart", "chat"], ["wait"], ["logs", "chat"]):
            assert f"cannot use {node.state_dir}" in node.llmgw(*command, code=1).err
        assert procs.is_alive(pid)
    finally:
        node.state_dir.chmod(0o700)
    assert (node.engine()["pid"], node.actions(state)) == (pid, {})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_a_state_directory_of_another_user_is_refused(node: Node) -> None:
    state = node.state(node.model())
    node.state_dir.mkdir(mode=0o700)
    os.chown(node.state_dir, 65534, 65534)
    assert "it belongs to uid 65534, not to 0" in node.llmgw("apply", state, code=1).err
    assert "it belongs to uid 65534" in node.llmgw("plan", state, code=1).out
    shutil.rmtree(node.state_dir)


def test_a_state_directory_that_is_a_file_is_an_error(node: Node) -> None:
    node.state_dir.write_text("")
    assert "is not a directory" in node.llmgw("apply", node.state(node.model()), code=1).err


def test_a_folder_of_an_engine_that_is_a_link_is_not_followed(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    pid = node.engine()["pid"]
    folder = node.state_dir / "engines/chat@0"
    with tempfile.TemporaryDirectory() as elsewhere:
        folder.rename(Path(elsewhere) / "chat@0")
        folder.symlink_to(Path(elsewhere) / "chat@0")
        node.state()
        plan = node.llmgw("plan", state, code=1)
        assert f"cannot use {folder}: " in plan.out
        node.llmgw("apply", state, "--allow-empty", "--max-stops", "9", code=1)
        assert procs.is_alive(pid)
        folder.unlink()
        (Path(elsewhere) / "chat@0").rename(folder)
    node.state(chat)
    assert node.actions(state) == {}


def test_too_few_descriptors_are_an_error_without_a_traceback(node: Node) -> None:
    state = node.state(*(node.model(f"m{n}") for n in range(3)))

    def run(limit: int, *command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, command)),
            env=node.env,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        )

    judged = []
    for limit in range(4, 16):
        bare = run(limit, sys.executable, "-c", "pass")
        if bare.returncode or bare.stderr:  # too few for the interpreter itself
            continue
        assert "Traceback" not in run(limit, LLMGW, "plan", state).stderr, f"limit {limit}"
        judged.append(limit)
    assert len(judged) >= 8


def test_a_disk_that_takes_nothing_more_starts_nothing_and_leaves_what_runs(node: Node) -> None:
    chat = node.model()
    state = node.state(chat)
    node.apply(state)
    pid = node.engine()["pid"]
    node.state(chat, node.model("new"))
    done = run(node, f"ulimit -f 0; $LLMGW apply {state}")  # no file may grow: EFBIG
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert (node.engine()["pid"], node.engine()["phase"], len(node.stubs())) == (pid, "ready", 1)
    assert run(node, f"ulimit -f 0; $LLMGW plan {state} && $LLMGW status").returncode == 0
    node.apply(state)


@pytest.mark.parametrize("limit", [20, 30])
def test_an_apply_with_few_descriptors_ends_in_words(node: Node, limit: int) -> None:
    state = node.state(*(node.model(f"m{n}") for n in range(8)))
    done = run(node, f"ulimit -n {limit}; $LLMGW apply {state}")
    assert "Traceback" not in done.stderr
    node.apply(state)
    assert len(node.stubs()) == 8
