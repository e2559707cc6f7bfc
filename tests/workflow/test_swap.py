"""Running engines trade their GPUs: all stops of the trade come before its starts."""

from __future__ import annotations

from tests.fakes.nvidia_smi import h100, uuid_of


def test_two_running_engines_trade_their_gpus(node):
    def state(one, two):
        return node.state(
            node.model("one", port=ports[0], gpus={"ids": [one]}), node.model("two", port=ports[1], gpus={"ids": [two]})
        )

    ports = node.port(), node.port()
    node.gpus(h100(0), h100(1))
    node.apply(state("0", "1"))
    before = {name: node.engine(f"{name}@0")["pid"] for name in ("one", "two")}
    trade = state("1", "0")
    plan = node.llmgw("plan", trade, "-o", "json").json()
    assert [(one["action"], one["engine"], one["gpus"]) for one in plan["actions"]] == [
        ("replace", "one@0", [uuid_of(1)]),
        ("replace", "two@0", [uuid_of(0)]),
    ]
    node.apply(trade)
    after = {name: node.engine(f"{name}@0") for name in ("one", "two")}
    assert {name: engine["gpus"] for name, engine in after.items()} == {"one": [uuid_of(1)], "two": [uuid_of(0)]}
    assert all(engine["phase"] == "ready" and engine["pid"] != before[name] for name, engine in after.items())
    assert node.llmgw("plan", trade).text.startswith("No changes.")
