"""The configurations of routers, word for word, and as their own parsers read them."""

from __future__ import annotations

import json

import pytest
import yaml

from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.endpoint import Endpoint
from llmgw_reconcile.render.routers import litellm_text, nginx_text, prometheus_sd_text

FIRST = Endpoint(engine="chat@0", kind="vllm", served=("chat", "llama"), host="127.0.0.1", port=8000)
SECOND = FIRST._replace(engine="chat@1", port=8001)
EMBED = Endpoint(engine="embed@0", kind="sglang", served=("embed",), host="fd00::7", port=8021)


def test_prometheus_gets_a_target_for_each_engine() -> None:
    assert json.loads(prometheus_sd_text("gpu-07", (FIRST, EMBED))) == [
        {
            "targets": ["127.0.0.1:8000"],
            "labels": {
                "llmgw_engine": "chat@0",
                "llmgw_kind": "vllm",
                "llmgw_model": "chat",
                "llmgw_node": "gpu-07",
            },
        },
        {
            "targets": ["[fd00::7]:8021"],
            "labels": {
                "llmgw_engine": "embed@0",
                "llmgw_kind": "sglang",
                "llmgw_model": "embed",
                "llmgw_node": "gpu-07",
            },
        },
    ]


def test_prometheus_gets_an_empty_list_when_nobody_is_ready() -> None:
    assert prometheus_sd_text("gpu-07", ()) == "[]\n"


def test_litellm_gets_an_entry_for_each_name_of_each_engine() -> None:
    assert litellm_text("gpu-07", (FIRST,)) == (
        "# Written by `llmgw endpoints`: the engines of gpu-07 that are ready.\n"
        "model_list:\n"
        '  - model_name: "chat"\n'
        "    litellm_params:\n"
        '      model: "openai/chat"\n'
        '      api_base: "http://127.0.0.1:8000/v1"\n'
        '      api_key: "none"\n'
        '  - model_name: "llama"\n'
        "    litellm_params:\n"
        '      model: "openai/llama"\n'
        '      api_base: "http://127.0.0.1:8000/v1"\n'
        '      api_key: "none"\n'
    )


def test_litellm_is_told_where_keys_come_from_and_no_key() -> None:
    by_variable = EMBED._replace(api_key=SecretRef("env", "EMBED_KEY"))
    by_file = [engine._replace(api_key=SecretRef("file", '/etc/my "key"')) for engine in (FIRST, SECOND)]
    text = litellm_text("gpu-07", (*by_file, by_variable))
    assert text.count('# LLMGW_KEY_CHAT must hold the content of "/etc/my \\"key\\""\n') == 1
    keys = [entry["litellm_params"]["api_key"] for entry in yaml.safe_load(text)["model_list"]]
    assert keys == ["os.environ/LLMGW_KEY_CHAT"] * 4 + ["os.environ/EMBED_KEY"]


def test_litellm_reads_an_empty_list_when_nobody_is_ready() -> None:
    assert yaml.safe_load(litellm_text("gpu-07", ())) == {"model_list": []}


@pytest.mark.parametrize("name", ['"quoted"', "a: b # c", "*anchor", "no", "ünïcode/7b", "back\\slash"])
def test_a_served_name_survives_litellms_yaml(name: str) -> None:
    (entry,) = yaml.safe_load(litellm_text("gpu-07", (FIRST._replace(served=(name,)),)))["model_list"]
    assert entry["model_name"] == name
    assert entry["litellm_params"]["model"] == f"openai/{name}"


def test_nginx_gets_an_upstream_for_each_model_that_there_may_be() -> None:
    assert nginx_text("gpu-07", (FIRST, SECOND, EMBED), ("chat", "embed", "idle")) == (
        "# Written by `llmgw endpoints`: the engines of gpu-07 that are ready.\n"
        "\n"
        "upstream llmgw_chat {\n"
        "    server 127.0.0.1:8000;\n"
        "    server 127.0.0.1:8001;\n"
        "}\n"
        "\n"
        "upstream llmgw_embed {\n"
        "    server [fd00::7]:8021;\n"
        "}\n"
        "\n"
        "upstream llmgw_idle {\n"
        "    server 127.0.0.1:9 down;  # no engine is ready\n"
        "}\n"
    )


def test_the_name_of_the_node_cannot_end_the_comment_that_it_stands_in() -> None:
    assert (
        nginx_text("gpu\n}evil", (), ()) == "# Written by `llmgw endpoints`: the engines of gpu??evil that are ready.\n"
    )
