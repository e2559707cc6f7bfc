"""Record states/node.snapshot.json: `python -m tests.record_snapshot > states/node.snapshot.json`.

The node is made of folders, the engines are stubs, and llmgw's own `agent snapshot` describes them: what ran before
states/node.yaml got its last changes. Afterwards the paths are those of a real node.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.fakes.node import Node
from tests.fakes.nvidia_smi import h100
from tests.fakes.sysfs import ethernet, infiniband, write_class

STATE = Path(__file__).parents[1] / "states" / "node.yaml"
NAME = "gpu-07"
BUSES = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")  # four on each of two sockets
LIMITS = {
    "ephemeral_ports": [32768, 60999],
    "memlock_kb": -1,
    "nofile": 1048576,
    "shm_total_mb": 1031854,
    "shm_used_mb": 12,
    "kernel": "6.8.0-71-generic",
    "iommu": "passthrough",
    "persistence_mode": True,
    "model_cache": "/data/huggingface/hub",
    "model_cache_free_mb": 2871044,
    "model_cache_writable": True,
}
Json = dict[str, Any]


def main() -> None:
    """Build the node, let llmgw start what ran, and print what it sees."""
    node = Node(Path(tempfile.mkdtemp(prefix="lg-")))
    try:
        build(node)
        node.apply(node.state(*models_before(node)), "--node", NAME)
        document = node.llmgw("agent", "snapshot", "--node", NAME).json()
    finally:
        node.leave()
    sys.stdout.write(json.dumps(as_on_a_real_node(document, node), indent=2) + "\n")


def build(node: Node) -> None:
    """Eight H100 and eight rails of 400 Gb/s, half of them on each socket, and an Ethernet adapter for the rest."""
    cards, adapters = [], {}
    for index, bus in enumerate(BUSES):
        uuid = (
            f"GPU-{0x9D2E41B7 + index * 0x01A3C5:08x}-{0x51C0 + index:04x}-4e8a-b7d6-{0x3F0C92D51E00 + index * 7:012x}"
        )
        cards.append(h100(index, uuid=uuid, pci_bus_id=f"00000000:{bus.upper()}:00.0", temperature_gpu=29 + index % 4))
        folder = node.sysfs / f"bus/pci/devices/0000:{bus}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{index // 4}\n")
        adapters |= infiniband(f"mlx5_{index}", lid=hex(0x40 + index), sm_lid="0x1")
        adapters |= {f"mlx5_{index}/device/numa_node": f"{index // 4}\n"}
    node.gpus(*cards, topology=topology())
    write_class(
        node.sysfs, adapters | ethernet("mlx5_bond_0", {3: "0000:0000:0000:0000:0000:ffff:0a14:0007"}, rate=100)
    )


def topology() -> str:
    """What `topo -m` says of eight cards behind NVSwitches: 18 links between any two, and the socket of each."""
    names = [f"GPU{index}" for index in range(len(BUSES))]
    rows = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])]
    for index, name in enumerate(names):
        cells = ["X" if other == index else "NV18" for other in range(len(names))]
        rows.append("\t".join([name, *cells, "0-55" if index < 4 else "56-111", str(index // 4)]))
    return "\n".join(rows) + "\n"


def models_before(node: Node) -> list[Json]:
    """What ran before: half the context, one replica, another small model, and no SGLang yet."""
    document = yaml.safe_load(STATE.read_text())
    llama, _, embed = document["models"]
    small = embed | {"name": "qwen-7b", "model": "Qwen/Qwen2.5-7B-Instruct", "port": 8030, "replicas": 1}
    del small["args"], small["served_model_name"]
    before = [llama | {"max_model_len": 16384}, embed | {"replicas": 1}, small]
    key = node.root / "api-key"
    key.write_text("not-a-real-key")
    key.chmod(0o600)
    stub = node.model(stub={"MIB": 74212})["env"]
    shared = document["defaults"]
    ours = {"executable": f"{node.bin}/vllm", "api_key": {"file": str(key)}, "env": shared["env"] | stub}
    return [shared | model | ours for model in before]


def as_on_a_real_node(document: Json, node: Node) -> Json:
    """The document with the paths and limits of a real node, and without the knobs of the stubs."""
    text = json.dumps(document)
    for ours, real in (("bin", "/opt/vllm/bin"), ("state", "/var/lib/llmgw"), ("api-key", "/etc/llmgw/api-key")):
        text = text.replace(f"{node.root}/{ours}", real)
    document = json.loads(text.replace(sys.executable, "/opt/vllm/bin/python3"))
    for engine in document["engines"].values():
        for part in ("spec", "launch"):
            values = engine[part]["env"]
            engine[part]["env"] = {name: values[name] for name in values if not name.startswith(("STUB_", "FAKE_"))}
    document["inventory"]["limits"] = LIMITS
    return document


if __name__ == "__main__":
    main()
