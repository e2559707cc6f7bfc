"""This node as the commands see it: its names, its state directory, and where its facts are read."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.engines.environment import Account
from llmgw_reconcile.host.clock import Clock, SystemClock
from llmgw_reconcile.host.state_dir import StateDir, find_state_dir


class Host(NamedTuple):
    """What every command needs of the machine."""

    node: str
    names: tuple[str, ...]  # what this node answers to: --node, else the host name
    state_dir: StateDir
    environ: Mapping[str, str]
    sys_root: str
    clock: Clock


def this_host(*, state_dir: str | None = None, node: str | None = None, environ: Mapping[str, str]) -> Host:
    """The node that this process runs on; `node` is what --node says it is called."""
    name = node or os.uname().nodename
    return Host(
        node=name,
        names=(name,),
        state_dir=find_state_dir(state_dir, environ, os.uname().nodename),
        environ=environ,
        sys_root=environ.get("LLMGW_SYSFS_ROOT") or "/sys",
        clock=SystemClock(),
    )


def own_account() -> Account:
    """The account that engines run as: this process's own."""
    try:
        entry = pwd.getpwuid(os.geteuid())
    except KeyError:  # a uid without an entry, as in some containers
        return Account(user=str(os.geteuid()), home="/", shell="/bin/sh")  # noqa: S604 - a field, no call of one
    return Account(user=entry.pw_name, home=entry.pw_dir, shell=entry.pw_shell or "/bin/sh")
