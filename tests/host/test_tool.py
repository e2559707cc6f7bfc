import os
import signal
import time

import pytest

from llmgw_reconcile.host import tool as tool_module
from llmgw_reconcile.host.tool import ToolResult, end_tools, finish_tools, start_tool


@pytest.fixture
def bin_folder(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture(autouse=True)
def _no_child_and_no_descriptor_is_left():
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def script(folder, name, body, mode=0o755):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return path


def run(*argv, **options):
    (result,) = finish_tools([start_tool(argv, **options)])
    return result


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def wait_until(question):
    deadline = time.monotonic() + 5
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_output_error_and_exit_code_come_back(bin_folder):
    script(bin_folder, "speak", 'echo "$1"; echo oops >&2; exit 6')
    assert run("speak", "a b") == ToolResult(("speak", "a b"), 6, "a b\n", "oops\n", "")


def test_a_missing_program_is_a_result_and_no_exception(bin_folder):
    assert run("no-such-tool") == ToolResult(("no-such-tool",), None, "", "", "not found on PATH")


def test_a_program_that_may_not_be_executed_is_not_called_missing(bin_folder):
    path = script(bin_folder, "locked", "echo never", mode=0o644)
    assert run("locked").problem == f"not executable: {path}"


def test_a_program_whose_interpreter_is_missing_is_not_called_missing(bin_folder):
    path = bin_folder / "orphan"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    assert run("orphan").problem == "cannot be started: No such file or directory"


def test_the_first_executable_on_path_wins_over_one_that_is_not(bin_folder, tmp_path, monkeypatch):
    second = tmp_path / "second"
    second.mkdir()
    script(bin_folder, "twin", "echo first", mode=0o644)
    script(second, "twin", "echo second")
    monkeypatch.setenv("PATH", f"{bin_folder}::{second}")
    assert run("twin").stdout == "second\n"


def test_an_empty_entry_of_path_does_not_mean_the_current_directory(bin_folder, tmp_path, monkeypatch):
    script(tmp_path, "planted", "echo never")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f":{bin_folder}:")
    assert run("planted").problem == "not found on PATH"


def test_a_tool_that_ignores_sigterm_is_killed_with_its_children_when_its_time_is_over(bin_folder, tmp_path):
    script(bin_folder, "hang", f"trap '' TERM; sleep 60 & echo $! >{tmp_path}/child; echo begun; wait")
    started = time.monotonic()
    result = run("hang", timeout=0.5)
    assert time.monotonic() - started < 3
    assert (result.returncode, result.stdout, result.problem) == (None, "begun\n", "no answer within 0.5 s")
    wait_until(lambda: is_gone((tmp_path / "child").read_text().strip()))


def test_a_child_that_keeps_the_output_open_is_not_waited_for_and_does_not_survive(bin_folder, tmp_path):
    script(bin_folder, "leave", f"sleep 60 & echo $! >{tmp_path}/child; echo done")
    started = time.monotonic()
    result = run("leave")
    assert time.monotonic() - started < 3
    assert (result.returncode, result.stdout) == (0, "done\n")
    wait_until(lambda: is_gone((tmp_path / "child").read_text().strip()))


def test_a_tool_that_closes_its_output_is_still_waited_for(bin_folder):
    script(bin_folder, "quiet", "exec >&- 2>&-; sleep 0.2; exit 7")
    assert run("quiet").returncode == 7


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGKILL, "SIGKILL"), (40, "signal 40")]
)
def test_an_end_by_a_signal_is_told_by_name(bin_folder, number, name):
    script(bin_folder, "crash", f"ulimit -c 0; kill -{int(number)} $$; sleep 5")
    result = run("crash")
    assert (result.returncode, result.problem) == (None, f"ended by {name}")


def test_output_is_bounded_and_the_tool_ended(bin_folder, monkeypatch):
    monkeypatch.setattr(tool_module, "OUTPUT_LIMIT", 1 << 20)
    script(bin_folder, "flood", "yes")
    result = run("flood")
    assert result.problem == "printed more than 1 MiB"
    assert 1 << 20 < len(result.stdout) <= (1 << 20) + (1 << 16)


def test_bytes_that_are_no_text_do_not_raise(bin_folder):
    script(bin_folder, "binary", "printf '\\377\\000ok'")
    assert run("binary").stdout == "\ufffd\x00ok"


def test_tools_run_side_by_side_and_answer_in_the_order_of_asking(bin_folder, tmp_path):
    # Each waits for a sign of the other: one after the other they would not end.
    script(bin_folder, "meet", f"touch {tmp_path}/$1; while [ ! -e {tmp_path}/$2 ]; do sleep 0.01; done; echo $1")
    results = finish_tools([start_tool(("meet", "a", "b"), timeout=5), start_tool(("meet", "b", "a"), timeout=5)])
    assert [result.stdout for result in results] == ["a\n", "b\n"]


def test_a_tool_that_ended_before_anyone_asked_has_its_answer_even_after_its_time(bin_folder, tmp_path):
    script(bin_folder, "early", f"echo here; touch {tmp_path}/printed")
    tool = start_tool(("early",), timeout=0.2)
    wait_until(lambda: is_gone(tool._pid) and time.monotonic() > tool.deadline)
    assert finish_tools([tool])[0] == ToolResult(("early",), 0, "here\n", "", "")


def test_standard_input_is_empty(bin_folder):
    assert run("cat") == ToolResult(("cat",), 0, "", "", "")


def test_the_environment_given_replaces_ours(bin_folder, monkeypatch):
    monkeypatch.setenv("OURS", "1")
    assert run("env", env={"THEIRS": "2"}).stdout == "THEIRS=2\n"


def test_a_tool_leads_its_own_group_and_has_signals_at_their_defaults(bin_folder):
    fields = dict(line.split(":", 1) for line in run("cat", "/proc/self/status").stdout.splitlines())
    ignored = int(fields["SigIgn"], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))
    assert int(fields["SigBlk"], 16) == 0
    stat = run("cat", "/proc/self/stat").stdout.split()
    assert stat[0] == stat[4]


def test_ending_tools_twice_is_harmless(bin_folder):
    script(bin_folder, "hang", "sleep 60")
    tools = [start_tool(("hang",)), start_tool(("no-such-tool",))]
    end_tools(tools)
    end_tools(tools)
    assert [result.problem for result in finish_tools(tools)] == ["ended by SIGKILL", "not found on PATH"]


def test_a_tool_that_does_something_else_than_answer_can_be_given_up(bin_folder):
    script(bin_folder, "astray", "sleep 60 & wait")
    script(bin_folder, "good", "echo yes")
    pids = []

    def give_up(tool):
        pids.append(tool.pid)
        return "it sleeps" if tool.argv == ("astray",) else ""

    astray, good = finish_tools([start_tool(["astray"]), start_tool(["good"])], give_up=give_up)
    assert (astray.returncode, astray.problem) == (None, "it sleeps")
    assert (good.returncode, good.stdout) == (0, "yes\n")
    assert all(is_gone(pid) for pid in pids)


def test_an_interrupted_wait_leaves_nothing_running(bin_folder):
    script(bin_folder, "hang", "sleep 60")
    tool = start_tool(("hang",))
    pid = tool._pid

    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            finish_tools([tool])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert is_gone(pid)


def test_an_exit_status_that_somebody_else_took_is_not_taken_for_success(bin_folder):
    tool = start_tool(("true",))
    os.waitpid(tool._pid, 0)
    assert finish_tools([tool])[0].problem == "its exit status was lost"


def test_the_module_needs_neither_subprocess_nor_shutil():
    code = (
        "import sys, llmgw_reconcile.host.tool; print(sorted({'subprocess', 'shutil', 'threading'} & set(sys.modules)))"
    )
    import sys

    assert run(sys.executable, "-c", code, env={**os.environ, "PYTHONPATH": os.getcwd()}).stdout == "[]\n"
