import json
import os

from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.claims import Claim, read_claims
from tests.fakes.nvidia_smi import uuid_of

GPUS = ("GPU-0000000a-aaaa-4bbb-8ccc-dddddddddd0a", "MIG-GPU-0000000b-aaaa-4bbb-8ccc-dddddddddd0b/7/0")


def proc(tmp_path, **command_lines):
    for pid, line in command_lines.items():
        folder = tmp_path / pid.removeprefix("p")
        folder.mkdir()
        (folder / "cmdline").write_bytes(line)
    return str(tmp_path)


def test_a_supervisor_is_known_by_its_title(tmp_path):
    title = f"llmgw: supervisor chat@0 {','.join(GPUS)}".encode()
    root = proc(tmp_path, p400=title + b"\0" * 1200, p90=b"llmgw: supervisor embed@11\0\0", p7=b"")
    assert read_claims(root) == (Claim(90, os.geteuid(), "embed@11"), Claim(400, os.geteuid(), "chat@0", GPUS))
    assert read_claims(root)[1].title == "llmgw: supervisor chat@0"


def test_others_are_none(tmp_path):
    root = proc(
        tmp_path,
        p1=b"llmgw: supervisor",
        p2=b"grep\0llmgw: supervisor chat@0\0",
        p3=b"llmgw: supervisor chat GPU-1",
        p4=b"llmgw: supervisor \x1b[2Jchat@0 GPU-1",
        p5=b"/usr/bin/python3\0-m\0llmgw_reconcile.supervisor\0",
    )
    (tmp_path / "self").mkdir()
    assert read_claims(root) == ()


def test_a_process_that_ends_meanwhile_is_none(tmp_path):
    (tmp_path / "12").mkdir()
    assert read_claims(str(tmp_path)) == ()
    assert read_claims(str(tmp_path / "none")) == ()


def test_a_supervisor_of_this_llmgw_can_be_read(node):
    node.apply(node.state(node.model(tensor_parallel_size=2)))
    record = json.loads((node.state_dir / "engines/chat@0/phase.json").read_text())
    pid = record["supervisor"]["pid"]
    (claim,) = (claim for claim in read_claims() if claim.pid == pid)
    assert claim == Claim(pid, os.geteuid(), "chat@0", (uuid_of(0), uuid_of(1)))


@given(st.binary(max_size=80))
def test_any_command_line_is_a_claim_or_none(tmp_path_factory, line):
    root = tmp_path_factory.mktemp("proc")
    (root / "5").mkdir()
    (root / "5/cmdline").write_bytes(b"llmgw: supervisor " + line)
    assert all(claim.pid == 5 and claim.engine.isprintable() for claim in read_claims(str(root)))
