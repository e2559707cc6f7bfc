"""Codes of the node: its driver, cards, ports and limits. They block one engine, and never the others."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_reconcile.render.explanations.explanation import Explanation

NODE: Mapping[str, Explanation] = {
    "nvidia-smi-failed": Explanation(
        "`nvidia-smi` is there and gave no list of cards: its driver is not loaded, is of another release, or hangs.",
        "Run `nvidia-smi` yourself. After a driver update, reload the modules or reboot; Xid lines stand in `dmesg`.",
    ),
    "nvidia-smi-missing": Explanation(
        "The driver serves cards on this node, and its tool nvidia-smi is not on PATH: the cards are not known.",
        "Install the tool of the driver's release, or put its folder on PATH.",
    ),
    "nvidia-smi-unreadable": Explanation(
        "`nvidia-smi` answered in a form that llmgw does not know, so nothing is decided on it.",
        "Run `nvidia-smi` yourself; hand in `llmgw agent record` if its answer looks right.",
    ),
    "nvidia-smi-processes": Explanation(
        "The cards are known, and who holds their memory is not.",
        "Run `nvidia-smi --query-compute-apps=pid,used_memory --format=csv` yourself to see why.",
    ),
    "nvidia-smi-slices": Explanation(
        "A card is in MIG mode, and its slices could not be listed, so none of them is given out.",
        "Run `nvidia-smi -L` yourself; slices are made with `nvidia-smi mig`.",
    ),
    "nvidia-smi-topology": Explanation(
        "How the cards are connected is not known, so GPUs of one engine may be chosen far apart.",
        "Run `nvidia-smi topo -m` yourself to see why.",
    ),
    "nvidia-smi-remark": Explanation(
        "`nvidia-smi` printed a sentence beside its rows. The rows were understood all the same.",
        "Read it: it often announces a card that is about to fail.",
    ),
    "gpus-unknown": Explanation(
        "The cards of the node could not be read. Nothing is placed, stopped or replaced on that account.",
        "Cure the error of nvidia-smi that is reported beside it.",
    ),
    "no-gpus": Explanation(
        "The engine wants GPUs, and this node has none.",
        "Write `device: cpu` for an engine that can, or plan for a recorded node with --from.",
    ),
    "recorded-node": Explanation(
        "This node has no GPUs, and beside the state file lies a snapshot of a node that has.",
        "Run the command that is named to see the plan of that node.",
    ),
    "gpu-unfit": Explanation(
        "A card has a fault, or somebody else holds its memory, so it is given to no engine.",
        "`llmgw agent inventory` says which; end the holder, reset the card, or keep it out with `node.cordon`.",
    ),
    "gpu-unavailable": Explanation(
        "A GPU that the file names is not there, unfit, cordoned, taken or named twice; the message says for each.",
        "Name other cards, or free these; a fault is accepted by `accept: [gpu-health:UUID]`.",
    ),
    "gpu-health": Explanation(
        "The code by which a model accepts a card that llmgw takes for unfit: `accept: [gpu-health:UUID]`.",
        "Use it for a fault that is known to be harmless; never for memory that somebody else holds.",
    ),
    "gpu-renumbered": Explanation(
        "An index in `gpus.ids` is bound to the UUID of its card when the engine is first started, and now it names "
        "another card: the driver numbers the cards anew when one is lost or added.",
        "Name the card that you mean by its UUID, which `llmgw agent inventory` shows.",
    ),
    "gpus-far-apart": Explanation(
        "The GPUs of one engine lie in several NUMA nodes and no NVLink joins them: what they tell each other crosses "
        "the processors. Nearer ones were not free.",
        "Free nearer cards, or use pipeline_parallel_size, which talks less than tensor_parallel_size.",
    ),
    "not-enough-gpus": Explanation(
        "Fewer fit and free GPUs are there than the engine needs; the message lists every card and why it is out.",
        "Free some, make the group smaller, or park another model with `replicas: 0`.",
    ),
    "mixed-gpu-classes": Explanation(
        "Only GPUs of several classes together would be enough, and a group runs at the pace of its slowest card.",
        "Ask for one class, `gpus: {class: CLASS}`, or make the group smaller.",
    ),
    "unknown-gpu-class": Explanation(
        "No card of this node is of the class that the file asks for.",
        "`llmgw agent inventory` shows the classes; a class is the model and the GiB that the driver reports.",
    ),
    "unknown-cordon": Explanation(
        "`node.cordon` names a GPU that this node does not have, so it keeps nothing out.",
        "Correct the name: a UUID, a PCI address or an index.",
    ),
    "no-free-port": Explanation(
        "Every port of `node.ports` is given away or busy.",
        "Widen the range, or name a `port`.",
    ),
    "port-taken": Explanation(
        "A process that is not this engine listens on its port; its answers would be taken for the engine's.",
        "End that process, or choose another `port`.",
    ),
    "ephemeral-port": Explanation(
        "The kernel gives ports of this range to whoever asks for any, workers of other engines among them.",
        "Choose ports below it, or reserve them: sysctl net.ipv4.ip_local_reserved_ports=PORT.",
    ),
    "address-unusable": Explanation(
        "`host` is no address of this node, so the engine could not listen there.",
        "Write an address of this node, 0.0.0.0 for all of them, or leave it out for the loopback.",
    ),
    "low-memlock": Explanation(
        "RDMA adapters reach only memory that is locked, and little may be: engines would fail to register theirs.",
        "Raise it: `LimitMEMLOCK=infinity` in the unit, or `* - memlock unlimited` in /etc/security/limits.d.",
    ),
    "low-nofile": Explanation(
        "Each connection and each rank opens files, and few may be open: engines fail under load.",
        "Raise it: `LimitNOFILE=1048576` in the unit, or `nofile` in /etc/security/limits.d.",
    ),
    "low-shm": Explanation(
        "The ranks of an engine talk through /dev/shm, which is small or full, often of what dead engines left there.",
        "Remount it larger (`mount -o remount,size=16G /dev/shm`), or remove what no process uses.",
    ),
    "model-cache": Explanation(
        "Where engines keep downloaded models there is little room, or no permission to write.",
        "Set HF_HOME in `env:` to a folder on a larger disk that the engine's account may write to.",
    ),
    "iommu": Explanation(
        "The IOMMU translates every transfer between two cards: slow at best, and NCCL may hang.",
        "Boot with `iommu=pt`, or switch ACS off on the bridges; in a virtual machine ask for it on the host.",
    ),
    "no-engine": Explanation(
        "None of the known engines is on PATH, beside llmgw's own interpreter, or in the system's folders.",
        "Install one, or name it with `executable:` in the state file.",
    ),
    "fabric-undecided": Explanation(
        "Several groups of RDMA adapters could be the fabric, and nothing tells which one the other nodes are on.",
        "Name the adapters: `node: {fabric: {hcas: [mlx5_0:1, mlx5_1:1]}}`; or write `fabric: none`.",
    ),
    "disk-full": Explanation(
        "The state directory has little room left: records cannot be written, and logs of engines stop growing.",
        "Make room, or keep records elsewhere with --state-dir.",
    ),
    "state-dir-volatile": Explanation(
        "The state directory lies in memory, so after a reboot nobody knows what was applied.",
        "Keep it on a disk: --state-dir, or LLMGW_STATE_DIR.",
    ),
    "state-dir-shared": Explanation(
        "The state directory lies on a network file system, where locks and renames are not what they are on a disk.",
        "Keep it on a local disk; it records this machine only.",
    ),
}
