"""Tell what an RDMA adapter speaks from what names its driver, its node type and its GUID: the link layer does not say.

Drivers of other networks say InfiniBand or Ethernet as well, and NVIDIA's adapters also manage NVSwitches.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from llmgw_reconcile.discovery.quoting import one_line
from llmgw_reconcile.host.tree import Tree
from llmgw_reconcile.model.rdma import RdmaKind

# Drivers whose link layer says InfiniBand or Ethernet although verbs peers of that kind cannot talk to them.
OTHER_DRIVERS = {
    "hfi1": "Omni-Path",
    "opa_vnic": "Omni-Path",
    "i40iw": "iWARP",
    "iw_cxgb4": "iWARP",
    "cxgb4": "iWARP",
    "siw": "iWARP in software",
    "erdma": "eRDMA",
    "usnic_verbs": "usNIC",
    "usnic": "usNIC",
}
SOFTWARE = "rxe"
# node_type, ABI/stable/sysfs-class-infiniband; an ordinary adapter is 1.
OTHER_NODES = {"2": "a switch", "3": "a router", "4": "iWARP", "5": "usNIC", "6": "usNIC"}
NO_GUID = "0000:0000:0000:0000"  # what EFA gives
# Where NVSwitches are reached through adapters (HGX B200 and later), those are ConnectX-7, and their vital product data
# say so. Root alone may read it, and it is slow.
BRIDGE_TYPE, BRIDGE_MARK = "MT4129", "SW_MNG"


class Nature(NamedTuple):
    """What an adapter is: `other` names the network that is neither InfiniBand nor RoCE, and is empty elsewhere."""

    other: str = ""
    is_efa: bool = False
    is_software: bool = False

    def kind(self, link_layer: str | None) -> RdmaKind:
        """What a port of it speaks."""
        if self.other or link_layer is None:
            return RdmaKind.OTHER
        if link_layer == "InfiniBand":
            return RdmaKind.INFINIBAND
        if link_layer == "Ethernet":
            return RdmaKind.ROCE
        return RdmaKind.EFA if self.is_efa else RdmaKind.OTHER


def nature_of(sys: Tree, name: str) -> Nature:
    """The nature of the adapter of that name in class/infiniband."""
    folder = f"class/infiniband/{name}"
    hca_type = one_line(sys.text(f"{folder}/hca_type") or "")
    named = (sys.target(f"{folder}/device/driver") or "", hca_type, re.sub(r"_?[0-9]+$", "", name))
    drivers = {text.lower() for text in named}
    node = one_line(sys.text(f"{folder}/node_type") or "").partition(":")[0]
    others = sorted(OTHER_DRIVERS[driver] for driver in drivers & OTHER_DRIVERS.keys())
    if node in OTHER_NODES:
        others.append(OTHER_NODES[node])
    elif not others and hca_type in ("", BRIDGE_TYPE) and BRIDGE_MARK in (sys.text(f"{folder}/device/vpd") or ""):
        others.append("it manages the NVSwitches")
    return Nature(
        other=others[0] if others else "",
        is_efa="efa" in drivers or one_line(sys.text(f"{folder}/node_guid") or "") == NO_GUID,
        # An emulation has an attribute for the interface below it, and no device of its own.
        is_software=SOFTWARE in drivers or sys.text(f"{folder}/parent") is not None,
    )
