"""`llmgw import` on a node where engines run."""

from __future__ import annotations

import subprocess

from llmgw_reconcile.statefile.load import load_state
from tests.fakes.node import Node


def test_engines_of_ours_come_out_as_they_were_asked_for(node: Node) -> None:
    state = node.state(node.model("chat", max_model_len=4096, labels={"team": "a"}), node.model("code", replicas=2))
    node.apply(state)
    written = node.root / "imported.yaml"
    assert node.llmgw("import", written).out.startswith(f"wrote {written}: ")
    # Only ours are looked at: other tests may run engines on this machine meanwhile.
    plan = node.plan(written, "--target", "chat", "--target", "code")
    assert {action["engine"]: action["action"] for action in plan["actions"]} == {
        "chat@0": "keep",
        "code@0": "keep",
        "code@1": "keep",
    }


def test_an_engine_started_by_hand_becomes_an_entry_and_its_secret_does_not(node: Node) -> None:
    port = node.port()
    command = [node.bin / "vllm", "serve", node.weights(), "--port", str(port), "--api-key", "sk-77"]
    environ = {**node.env, "CUDA_VISIBLE_DEVICES": "2", "HF_HOME": "/data"}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        found = node.llmgw("import")
    finally:
        process.kill()
        process.wait()
    (model,) = [
        one for one in load_state("-", found.out.encode(), base="/").models if one.executable == str(node.bin / "vllm")
    ]
    assert (model.port, model.host, model.gpus.ids, model.env["HF_HOME"]) == (port, "0.0.0.0", ("2",), "/data")
    assert "sk-77" not in found.text
    assert f"pid {process.pid} of " in found.out


def test_a_file_that_exists_is_not_written_over(node: Node) -> None:
    path = node.root / "kept.yaml"
    path.write_text("mine")
    assert "it exists already" in node.llmgw("import", path, code=3).err
    assert path.read_text() == "mine"
