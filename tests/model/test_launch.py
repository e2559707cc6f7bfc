"""A launch as it is written down and compared: JSON values, and secrets by reference only."""

from __future__ import annotations

import json

from llmgw_reconcile.model.desired import EngineKind, FileArg, SecretRef
from llmgw_reconcile.model.launch import Launch, launch_document

LAUNCH = Launch(
    engine="chat@0",
    kind=EngineKind.VLLM,
    argv=("/bin/vllm", "--key", SecretRef("env", "KEY"), FileArg("/t.jinja", "sha256:00")),
    env=(("HF_TOKEN", SecretRef("file", "/k")), ("LANG", "C.UTF-8")),
    gpus=("GPU-1", "GPU-0"),
    host="127.0.0.1",
    port=8000,
    served=("chat", "gpt"),
    api_key=SecretRef("env", "KEY"),
)


def test_the_document_of_a_launch() -> None:
    document = launch_document(LAUNCH)
    assert {name: document[name] for name in ("kind", "argv", "env", "gpus", "host", "port", "served", "api_key")} == {
        "kind": "vllm",
        "argv": ["/bin/vllm", "--key", {"env": "KEY"}, {"file": "/t.jinja", "digest": "sha256:00"}],
        "env": {"HF_TOKEN": {"file": "/k"}, "LANG": "C.UTF-8"},
        "gpus": ["GPU-1", "GPU-0"],
        "host": "127.0.0.1",
        "port": 8000,
        "served": ["chat", "gpt"],
        "api_key": {"env": "KEY"},
    }


def test_what_is_written_is_what_is_compared() -> None:
    document = launch_document(LAUNCH)
    assert json.loads(json.dumps(document)) == document
    assert document.keys() >= set(Launch._fields) - {"engine"}
