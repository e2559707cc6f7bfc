"""Engines over several nodes, planned on one of them through the whole tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.node import Json, Node
from tests.fakes.sysfs import infiniband, write_class

HERE = {"name": "gpu-01", "address": "127.0.0.1"}
THERE = {"name": "gpu-02", "address": "127.0.0.2"}


@pytest.fixture
def place(node: Node) -> Node:
    """A node with eight H100s and two InfiniBand adapters, of which the name of one begins like the other's."""
    write_class(node.sysfs, infiniband("mlx5_1", lid="0x11") | infiniband("mlx5_10", lid="0x12"))
    return node


def group(node: Node, **fields: Any) -> Json:
    return node.model("big", **{"tensor_parallel_size": 16, "nodes": [HERE, THERE], **fields})


def planned(place: Node, name: str, /, *models: Json, code: int = 0, **top: Any) -> Json:
    """The plan on the node of that name."""
    return place.plan(place.state(*models, **top), "--node", name, code=code)


def told(plan: Json, code: str) -> list[str]:
    return [one["message"] for one in plan["diagnostics"] if one["code"] == code]


def test_each_node_plans_its_own_rank(place: Node) -> None:
    big = group(place)
    (head,), (other,) = (planned(place, name, big)["actions"] for name in ("gpu-01", "gpu-02.example.org"))
    assert [action["action"] for action in (head, other)] == ["start", "start"]
    ranks = [action["command"][action["command"].index("--node-rank") + 1] for action in (head, other)]
    assert ranks == ["0", "1"]
    meetings = {action["command"][action["command"].index("--master-port") + 1] for action in (head, other)}
    assert len(meetings) == 1
    assert "--headless" in other["command"]
    assert (head["port"], other["port"]) == (big["port"], None)
    assert {len(action["gpus"]) for action in (head, other)} == {8}
    assert {action["environment"]["NCCL_IB_HCA"] for action in (head, other)} == {"=mlx5_1:1,mlx5_10:1"}


def test_a_group_of_other_nodes_is_nothing_to_this_one(place: Node) -> None:
    assert planned(place, "gpu-09", group(place))["actions"] == []


def test_a_node_is_found_by_its_address_too(place: Node) -> None:
    big = group(place, nodes=["127.0.0.1", "203.0.113.2"])
    (action,) = planned(place, "any-name", big)["actions"]
    assert action["command"][action["command"].index("--node-rank") + 1] == "0"


def test_an_island_blocks_a_group_and_nothing_else(node: Node) -> None:
    plan = planned(node, "gpu-01", group(node), node.model("chat", device="cpu"), code=1)
    assert {action["engine"]: action["action"] for action in plan["actions"]} == {"big@0": "blocked", "chat@0": "start"}
    assert told(plan, "no-fabric") == ["island: no usable RDMA fabric for an engine over 2 nodes: no RDMA adapters"]


def test_an_island_may_talk_over_sockets(node: Node) -> None:
    plan = planned(node, "gpu-01", group(node), node={"fabric": "none"})
    (action,) = plan["actions"]
    assert action["environment"]["NCCL_IB_DISABLE"] == "1"
    assert "NCCL_NET" not in action["environment"]
    assert told(plan, "sockets-only")


def test_a_name_that_does_not_resolve_warns_a_plan_and_blocks_an_apply(place: Node) -> None:
    big = group(place, nodes=[HERE, "no-such-node.invalid"])
    plan = planned(place, "gpu-01", big)
    message = "nodes: no-such-node.invalid does not resolve on this node"
    assert told(plan, "unresolved-name") == [message]
    refused = place.apply(place.state(big), "-y", "--node", "gpu-01", code=1)
    assert message in " ".join(refused.text.split())
    assert place.stubs() == {}


def test_arithmetic_that_does_not_work_out_refuses_the_file(place: Node) -> None:
    refused = place.llmgw("plan", place.state(group(place, tensor_parallel_size=15)), "--node", "gpu-01", code=3)
    assert "tensor_parallel_size 15 = 15 GPUs, which 2 nodes cannot share evenly" in refused.text


def inventory_file(node: Node, name: str, **changes: Any) -> Path:
    """The inventory of this very node under another name, with UUIDs and LIDs of its own."""
    document = node.llmgw("agent", "inventory", "-o", "json", "--node", name).json()
    for card in document["gpus"]:
        card["uuid"] = card["uuid"][:-4] + "ffff" + card["uuid"][-4:]
    for port in document["hcas"]:
        port["lid"] += 100
    path = node.root / f"{name}.json"
    path.write_text(json.dumps(document | changes))
    return path


def test_inventories_of_the_other_nodes_are_compared(place: Node) -> None:
    state = place.state(group(place))
    peer = inventory_file(place, "gpu-02")
    plan = place.plan(state, "--node", "gpu-01", "--peer-inventory", peer)
    assert [one["code"] for one in plan["diagnostics"] if one["code"].startswith("group")] == []
    poorer = inventory_file(place, "gpu-02", gpus=[])
    plan = place.plan(state, "--node", "gpu-01", "--peer-inventory", poorer, code=1)
    assert told(plan, "group-disagreement") == ["GPUs: 8 x h100-80g on gpu-01, none on gpu-02"]


def test_an_inventory_of_no_node_of_a_group_is_told(place: Node) -> None:
    plan = place.plan(place.state(place.model()), "--peer-inventory", inventory_file(place, "gpu-77"))
    assert told(plan, "no-peer") == ["its inventory was given, and no group here has this node"]


def test_a_file_that_is_no_inventory_is_refused(place: Node) -> None:
    path = place.root / "peer.json"
    path.write_text('{"format_version": 1}')
    refused = place.llmgw("plan", place.state(group(place)), "--peer-inventory", path, code=3)
    assert "it is no inventory of this version" in refused.text


def test_what_an_engine_opens_besides_is_not_given_to_another(place: Node) -> None:
    first = place.port(20)
    nixl = place.model("nixl", args=["--kv-transfer-config", '{"kv_connector": "NixlConnector"}'], port=first + 19)
    nixl["env"]["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(first)
    chat = place.model("chat")
    del chat["port"]
    plan = place.plan(place.state(nixl, chat, node={"ports": f"{first}-{first + 18}"}))
    assert {action["engine"]: action["port"] for action in plan["actions"]} == {
        "nixl@0": first + 19,
        "chat@0": first + 1,
    }
