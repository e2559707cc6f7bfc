"""What a member of a group talks over to the environment that keeps NCCL and its kind on exactly that.

Without a list NCCL takes every active RDMA port, those of storage and management among them, and where it cannot use
them it falls back to TCP without a word. Facts: NVIDIA/nccl 2.30, src/transport/net_ib and src/misc/utils.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_reconcile.engines.arguments import mentions
from llmgw_reconcile.model.desired import Device, ModelSpec
from llmgw_reconcile.model.group import Link
from llmgw_reconcile.model.rdma import RdmaKind


def group_environment(link: Link, model: ModelSpec, *, address_variable: str) -> dict[str, str]:
    """The variables of one member. They are its node's own: names and addresses differ from node to node.

    `address_variable` is how the engine is told its own address. EFA is left alone, for its plugin ignores all of it.
    """
    planned = _way(link, address_variable)
    if model.device is Device.CPU:
        return planned
    if link.interface:
        planned["NCCL_SOCKET_IFNAME"] = f"={link.interface}"  # without `=`, bond0 would be bond0.2093 as well
    if link.kind is None:
        return planned | {"NCCL_IB_DISABLE": "1"}
    if link.hcas:
        planned |= _fabric(link)
        planned |= _others(link, model)
    return planned


def _way(link: Link, address_variable: str) -> dict[str, str]:
    """How the members find each other."""
    planned = {"GLOO_SOCKET_IFNAME": link.interface} if link.interface else {}  # Gloo knows no `=`
    return planned | ({address_variable: link.address} if link.address and address_variable else {})


def _fabric(link: Link) -> Mapping[str, str]:
    """`=` makes the whole list exact: without it mlx5_1 stands for mlx5_10 too, with a port or without."""
    planned = {
        "NCCL_IB_HCA": f"={','.join(link.hcas)}",
        "NCCL_NET": "IB",  # for InfiniBand and RoCE alike; an adapter that fails is an error then, and not TCP
    }
    return planned | {"NCCL_CROSS_NIC": "0"} if link.isolated_rails else planned


def _others(link: Link, model: ModelSpec) -> dict[str, str]:
    """For the libraries that read none of NCCL's variables, where the model's arguments ask for them."""
    planned = {}
    if mentions(model, "nixl"):
        # UCX takes the list for all that it uses: without a way to itself over TCP, NIXL does not start.
        planned["UCX_NET_DEVICES"] = ",".join((*link.hcas, "lo"))
    if uses_nvshmem(model):
        planned["NVSHMEM_HCA_LIST"] = ",".join(link.hcas)
        planned["NVSHMEM_ENABLE_NIC_PE_MAPPING"] = "1"
        if link.interface:
            planned["NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME"] = link.interface
        if link.gid_index is not None:  # NCCL chooses one by itself, NVSHMEM does not
            planned["NVSHMEM_IB_GID_INDEX"] = str(link.gid_index)
    return planned


def lacks_gid_index(link: Link, model: ModelSpec) -> bool:
    """Whether NVSHMEM has to be told a GID and is not."""
    told = link.gid_index is not None or "NVSHMEM_IB_GID_INDEX" in model.env
    return link.kind is RdmaKind.ROCE and uses_nvshmem(model) and not told


def uses_nvshmem(model: ModelSpec) -> bool:
    """Whether experts are reached by DeepEP, whose kernels talk through NVSHMEM."""
    return mentions(model, "deepep")
