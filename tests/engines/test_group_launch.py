"""From an engine over several nodes to what each of its nodes starts, written out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.engines.environment import Account
from llmgw_reconcile.engines.launch import derive_launch
from llmgw_reconcile.model.desired import EngineKind, GroupNode
from llmgw_reconcile.model.group import Link, Member
from llmgw_reconcile.model.launch import Launch, Placement, ReadyWhen
from llmgw_reconcile.model.rdma import RdmaKind
from tests.fakes.placed import a_placement, gpu

VLLM, SGLANG = EngineKind.VLLM, EngineKind.SGLANG
NODES = (GroupNode("gpu-01", "gpu-01"), GroupNode("gpu-02", "10.0.0.2"))
LINK = Link(RdmaKind.INFINIBAND, ("mlx5_0:1", "mlx5_4:1"), interface="ib0", address="10.1.0.2")


def member(rank: int, *, head: str = "gpu-01", port: int | None = 8000, **fields: Any) -> Placement:
    placed = a_placement(gpu(0), tensor_parallel_size=16, nodes=NODES, **fields)
    return placed._replace(port=port, member=Member(rank, 2, head, 20233, LINK))


def launch(placement: Placement) -> Launch:
    return derive_launch(placement, account=Account("llm", "/home/llm", "/bin/bash"), tmp_dir="/run/t")


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        pytest.param(
            member(0, executable="/opt/v/bin/vllm"),
            "/opt/v/bin/vllm serve org/model --host 127.0.0.1 --port 8000 --served-model-name chat"
            " --tensor-parallel-size 16 --nnodes 2 --node-rank 0 --master-addr gpu-01 --master-port 20233",
            id="vllm-head",
        ),
        pytest.param(
            member(1, port=None, executable="/opt/v/bin/vllm", args=("--enforce-eager",)),
            "/opt/v/bin/vllm serve org/model --served-model-name chat --tensor-parallel-size 16"
            " --nnodes 2 --node-rank 1 --master-addr gpu-01 --master-port 20233 --headless --enforce-eager",
            id="vllm-rank-1-serves-nothing",
        ),
        pytest.param(
            member(1, port=None, executable="/opt/v/bin/vllm", data_parallel_size=2),
            "/opt/v/bin/vllm serve org/model --served-model-name chat --tensor-parallel-size 16"
            " --data-parallel-size 2 --nnodes 2 --node-rank 1 --master-addr gpu-01 --master-port 20233"
            " --data-parallel-rpc-port 20234 --headless",
            id="vllm-copies-have-a-port-of-their-own",
        ),
        pytest.param(
            member(0, executable="/opt/v/bin/python3"),
            "/opt/v/bin/python3 -m vllm.entrypoints.cli.main serve org/model --host 127.0.0.1 --port 8000"
            " --served-model-name chat --tensor-parallel-size 16 --nnodes 2 --node-rank 0 --master-addr gpu-01"
            " --master-port 20233",
            id="vllm-as-a-module-that-knows-headless",
        ),
        pytest.param(
            member(1, executable="/opt/s/bin/sglang", engine=SGLANG, head="10.0.0.1"),
            "/opt/s/bin/sglang serve --model-path org/model --host 127.0.0.1 --port 8000 --served-model-name chat"
            " --tp-size 16 --nnodes 2 --node-rank 1 --dist-init-addr 10.0.0.1:20233",
            id="sglang-rank-1-has-the-same-command",
        ),
        pytest.param(
            member(0, executable="/opt/s/bin/sglang", engine=SGLANG, head="fd00::1"),
            "/opt/s/bin/sglang serve --model-path org/model --host 127.0.0.1 --port 8000 --served-model-name chat"
            " --tp-size 16 --nnodes 2 --node-rank 0 --dist-init-addr [fd00::1]:20233",
            id="sglang-and-ipv6",
        ),
    ],
)
def test_a_node_of_a_group_starts_this(placement: Placement, expected: str) -> None:
    assert " ".join(map(str, launch(placement).argv)) == expected


@pytest.mark.parametrize(("engine", "variable"), [(VLLM, "VLLM_HOST_IP"), (SGLANG, "SGLANG_HOST_IP")])
def test_a_node_of_a_group_is_told_its_network(engine: EngineKind, variable: str) -> None:
    told = dict(launch(member(1, engine=engine)).env)
    names = ("NCCL_IB_HCA", "NCCL_NET", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", variable)
    assert [told[name] for name in names] == ["=mlx5_0:1,mlx5_4:1", "IB", "=ib0", "ib0", "10.1.0.2"]


def test_the_file_has_the_last_word_on_the_network() -> None:
    assert dict(launch(member(0, env={"NCCL_NET": "Socket"})).env)["NCCL_NET"] == "Socket"


@pytest.mark.parametrize("engine", [VLLM, SGLANG])
def test_an_engine_on_one_node_is_told_nothing_of_a_network(engine: EngineKind) -> None:
    variables = dict(launch(a_placement(gpu(0), engine=engine, nodes=NODES[:1])).env)
    assert not [name for name in variables if name.startswith(("NCCL", "GLOO", "UCX", "NVSHMEM")) or "HOST_IP" in name]


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        pytest.param(a_placement(gpu(0)), ReadyWhen.SERVES, id="alone"),
        pytest.param(member(0), ReadyWhen.SERVES, id="vllm-head"),
        pytest.param(member(1, port=None), ReadyWhen.LIVES, id="vllm-rank-1"),
        pytest.param(member(0, engine=SGLANG), ReadyWhen.SERVES, id="sglang-head"),
        pytest.param(member(1, engine=SGLANG), ReadyWhen.HEALTHY, id="sglang-rank-1"),
    ],
)
def test_what_tells_that_a_rank_is_ready(placement: Placement, expected: ReadyWhen) -> None:
    assert launch(placement).readiness is expected
