"""Who can be routed to, for people and for programs; a key is named and never shown."""

from __future__ import annotations

from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.endpoint import Endpoint
from llmgw_reconcile.render.endpoints import endpoints_document, endpoints_text

CHAT = Endpoint(
    engine="chat@0",
    kind="vllm",
    served=("chat", "llama"),
    host="127.0.0.1",
    port=8000,
    api_key=SecretRef("file", "/etc/llmgw/key"),
    labels={"team": "search"},
)
EMBED = Endpoint(engine="embed@1", kind="sglang", served=("embed",), host="fd00::7", port=8021)


def test_the_document_names_all_that_a_router_needs() -> None:
    assert endpoints_document("gpu-07", (CHAT, EMBED)) == {
        "format_version": 1,
        "node": "gpu-07",
        "endpoints": [
            {
                "engine": "chat@0",
                "model": "chat",
                "kind": "vllm",
                "served": ["chat", "llama"],
                "host": "127.0.0.1",
                "port": 8000,
                "url": "http://127.0.0.1:8000",
                "api_key": {"file": "/etc/llmgw/key"},
                "labels": {"team": "search"},
            },
            {
                "engine": "embed@1",
                "model": "embed",
                "kind": "sglang",
                "served": ["embed"],
                "host": "fd00::7",
                "port": 8021,
                "url": "http://[fd00::7]:8021",
                "api_key": None,
                "labels": {},
            },
        ],
    }


def test_the_table_has_a_line_for_each() -> None:
    assert endpoints_text("gpu-07", (CHAT, EMBED)) == (
        "ENGINE   SERVED AS    URL                    KEY\n"
        "chat@0   chat, llama  http://127.0.0.1:8000  file:/etc/llmgw/key\n"
        "embed@1  embed        http://[fd00::7]:8021  -\n"
    )


def test_nobody_is_one_sentence() -> None:
    assert endpoints_text("gpu-07", ()) == "No engine on gpu-07 is ready now.\n"
