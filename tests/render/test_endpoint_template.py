"""A template is filled in for each endpoint between $each and $end, and once everywhere else."""

from __future__ import annotations

import pytest

from llmgw_reconcile.errors import RefusedError
from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.endpoint import Endpoint
from llmgw_reconcile.render.endpoint_template import template_text

CHAT = Endpoint(
    engine="chat@0",
    kind="vllm",
    served=("chat", "llama"),
    host="127.0.0.1",
    port=8000,
    api_key=SecretRef("env", "CHAT_KEY"),
)
EMBED = Endpoint(engine="embed@0", kind="sglang", served=("embed",), host="fd00::7", port=8021)


def fill(template: str, *endpoints: Endpoint) -> str:
    return template_text("haproxy.in", template, "gpu-07", endpoints)


def test_the_lines_of_a_block_are_repeated_together() -> None:
    template = (
        "# $count of $node\nbackend llm\n  $each\n    # $engine\n    server $model-$port $address check\n  $end\nlast\n"
    )
    assert fill(template, CHAT, EMBED) == (
        "# 2 of gpu-07\n"
        "backend llm\n"
        "    # chat@0\n"
        "    server chat-8000 127.0.0.1:8000 check\n"
        "    # embed@0\n"
        "    server embed-8021 [fd00::7]:8021 check\n"
        "last\n"
    )


def test_every_field_is_filled_in() -> None:
    template = "$each\n$engine|$model|$kind|$served|$names|$host|$port|$address|$url|$key|${node}s|$$\n$end\n"
    assert fill(template, CHAT, EMBED) == (
        "chat@0|chat|vllm|chat|chat,llama|127.0.0.1|8000|127.0.0.1:8000|http://127.0.0.1:8000|env:CHAT_KEY|gpu-07s|$\n"
        "embed@0|embed|sglang|embed|embed|fd00::7|8021|[fd00::7]:8021|http://[fd00::7]:8021||gpu-07s|$\n"
    )


def test_a_block_is_empty_when_nobody_is_ready() -> None:
    assert fill("a\n$each\n$engine\n$end\nb") == "a\nb"


def test_a_served_name_cannot_begin_a_line_of_its_own() -> None:
    assert fill("$each\n$names\n$end\n", CHAT._replace(served=("a\nb $port",))) == "a\\x0ab $port\n"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param(
            "$nonsense\n", r"haproxy\.in:1: there is no \$nonsense here; there are \$node, \$count", id="unknown"
        ),
        pytest.param(
            "$port\n", r"haproxy\.in:1: there is no \$port here, which stands between \$each and \$end", id="place"
        ),
        pytest.param("a\n$each\n$nonsense\n$end\n", r"haproxy\.in:3: there is no \$nonsense here", id="in a block"),
        pytest.param("a $ b\n", r"haproxy\.in:1: a \$ that begins no field; write \$\$ for a dollar", id="a dollar"),
        pytest.param("$each\n$each\n", r"haproxy\.in:2: \$each inside of \$each", id="a block in a block"),
        pytest.param("$end\n", r"haproxy\.in:1: \$end without \$each", id="an end alone"),
        pytest.param("$each\n$port\n", r"haproxy\.in: \$each without \$end", id="no end"),
    ],
)
def test_a_template_that_cannot_be_filled_in_is_refused_also_when_nobody_is_ready(template: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        fill(template)
