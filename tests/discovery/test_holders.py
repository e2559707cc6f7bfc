import os
import pwd
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.claims import Claim
from llmgw_reconcile.discovery.holders import claimant, command_of, describe_process, find_holder
from llmgw_reconcile.discovery.nvidia_cards import GpuProcess
from llmgw_reconcile.discovery.owners import Owners
from llmgw_reconcile.model.gpu import Holder, HolderKind

ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("/opt/tools/burn", "--token", "s3cret"), "burn"),
        (("/usr/bin/python3.11", "/home/a/train.py", "--key=s3cret"), "python3.11 train.py"),
        (("python", "-u", "-X", "dev", "-Werror", "-W", "ignore", "train.py"), "python train.py"),
        (
            ("python3", "-m", "vllm.entrypoints.openai.api_server", "s3cret"),
            "python3 -m vllm.entrypoints.openai.api_server",
        ),
        (("python3", "-Im", "pkg", "s3cret"), "python3 -m pkg"),
        (("python3", "-mpkg"), "python3 -m pkg"),
        (("python3", "-m"), "python3 -m"),
        (("python3", "-c", "key='s3cret'"), "python3"),
        (("python3", "-uc", "key='s3cret'"), "python3"),
        (("python3", "-ckey='s3cret'"), "python3"),
        (("python3", "--check-hash-based-pycs", "never", "x"), "python3"),
        (("python3", "-", "s3cret"), "python3"),
        (("python3",), "python3"),
        (("bash", "/opt/run.sh", "s3cret"), "bash run.sh"),
        (("bash", "-lc", "KEY=s3cret serve"), "bash"),
        (("perl", "-e", "s3cret"), "perl"),
        (("VLLM::EngineCore",), "VLLM::EngineCore"),
        (("sglang::scheduler_TP0 --key s3cret",), "sglang::scheduler_TP0"),
        (("/opt/evil\x1b[2J", "x"), "evil\\x1b[2J"),
        (("x" * 500,), "x" * 79 + "…"),
        (("",), None),
        ((), None),
    ],
)
def test_a_command_is_the_program_and_its_script_never_an_argument(argv, expected):
    assert command_of(argv) == expected


@given(st.lists(st.text(max_size=8), max_size=5))
def test_any_command_line_gives_printable_words_or_none(argv):
    command = command_of(argv)
    assert command is None or (command and command.isprintable())


def proc(tmp_path, pid, cmdline):
    (tmp_path / str(pid)).mkdir()
    (tmp_path / str(pid) / "cmdline").write_bytes(cmdline)
    return str(tmp_path)


def test_a_holder_has_its_user_its_command_and_its_engine(tmp_path):
    root = proc(tmp_path, 41, b"/usr/bin/python3\0serve.py\0--key\0s3cret\0")
    process = GpuProcess("GPU-1", 41, 900, "python3")
    ours = Owners({41: "chat@0"}.get, proc_root=root)
    assert find_holder(process, ours) == Holder(41, ME, "python3 serve.py", 900, "chat@0", HolderKind.OURS)
    assert find_holder(process, Owners({}.get, proc_root=root)) == Holder(41, ME, "python3 serve.py", 900)


def test_a_process_that_proc_does_not_show_keeps_the_drivers_name_for_it(tmp_path):
    process = GpuProcess("GPU-1", 42, None, "/opt/x/burn --key s3cret")
    owners = Owners({}.get, proc_root=str(tmp_path))
    unseen = Holder(42, kind=HolderKind.NOT_VISIBLE)
    assert find_holder(process, owners) == unseen._replace(command="burn")
    assert find_holder(process._replace(name=None), owners) == unseen


def test_a_supervisor_of_another_llmgw_holds_the_cards_that_it_names(tmp_path):
    (tmp_path / "61").mkdir()
    assert claimant(Claim(61, os.geteuid(), "chat@0", ("GPU-1",)), str(tmp_path)) == Holder(
        61, ME, "llmgw: supervisor chat@0", None, None, HolderKind.OTHER_LLMGW
    )


def test_the_user_is_the_one_that_the_process_acts_as(tmp_path):
    root = proc(tmp_path, 45, b"x\0")
    (tmp_path / "45/status").write_text("Name:\tx\nUid:\t1\t4294967294\t1\t1\nGid:\t1\t1\t1\t1\n")
    assert describe_process(45, root) == ("4294967294", "x")


def test_a_zombie_has_no_command_line(tmp_path):
    assert describe_process(43, proc(tmp_path, 43, b"")) == (ME, None)


def test_a_real_process_is_described():
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", "s3cret"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process.stdout.readline()  # right after exec(2) the command line is still empty
        assert describe_process(process.pid) == (ME, os.path.basename(sys.executable))
    finally:
        process.communicate(b"\n")


def test_a_user_without_a_name_is_a_number(tmp_path, monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert describe_process(44, proc(tmp_path, 44, b"x\0")) == (str(os.geteuid()), "x")
