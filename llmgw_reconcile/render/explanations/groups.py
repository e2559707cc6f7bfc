"""Codes of engines over several nodes."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw_reconcile.render.explanations.explanation import Explanation

GROUPS: Mapping[str, Explanation] = {
    "no-fabric": Explanation(
        "The engine spans nodes, and this node has no usable RDMA fabric. Over TCP it would be many times slower.",
        "Repair the adapters, name them with `node.fabric.hcas`, or accept TCP with `node: {fabric: none}`.",
    ),
    "no-such-adapter": Explanation(
        "`node.fabric.hcas` names an adapter that this node does not have.",
        "`llmgw agent inventory` lists them.",
    ),
    "unfit-adapter": Explanation(
        "`node.fabric.hcas` names a port that is down, or of a kind that NCCL does not speak.",
        "Repair the link, or name other ports.",
    ),
    "mixed-fabric": Explanation(
        "`node.fabric.hcas` names ports of several kinds, which cannot reach each other.",
        "Name ports of one kind.",
    ),
    "no-such-interface": Explanation(
        "`node.fabric.socket_interface` is no network interface of this node.",
        "Write one of those that the message lists.",
    ),
    "unfit-interface": Explanation(
        "`node.fabric.socket_interface` is down or has no address; NCCL would end at once.",
        "Bring it up, or name another one.",
    ),
    "sockets-only": Explanation(
        "The file chose TCP for an engine over several nodes.",
        "Nothing has to be done, if that is meant.",
    ),
    "efa-by-plugin": Explanation(
        "NCCL speaks EFA through a plugin only, and takes TCP silently where that fails to load.",
        "`env: {NCCL_NET: AWS Libfabric}` makes that an error.",
    ),
    "no-gid-index": Explanation(
        "NVSHMEM wants one GID index for all RoCE ports, and these agree on none.",
        "Look with `show_gids`, and set NVSHMEM_IB_GID_INDEX in `env`.",
    ),
    "unresolved-name": Explanation(
        "This node cannot turn the name of another node of the group into an address.",
        "Add it to DNS or /etc/hosts, or write `{name: NODE, address: ADDRESS}`.",
    ),
    "loopback-name": Explanation(
        "A node's name stands for the loopback here, where no other node is reached. Debian writes that in /etc/hosts.",
        "Correct /etc/hosts, or give the node an `address`.",
    ),
    "foreign-address": Explanation(
        "This node's own name in `nodes` stands for an address that none of its interfaces has.",
        "Name the interface with `node.fabric.socket_interface`, or correct the address.",
    ),
    "group-disagreement": Explanation(
        "The nodes of a group differ where they must be equal, or are in different fabrics.",
        "Make them equal: driver, engine, classes of GPUs, fabric.",
    ),
    "group-not-compared": Explanation(
        "Something of another node of the group is not known here, so it was not compared.",
        "Give its inventory with --peer-inventory, or do nothing.",
    ),
    "no-peer": Explanation(
        "An inventory was given of a node that is in no group here.",
        "Leave it out, or correct `nodes`.",
    ),
}
