"""The account and the placement of an engine to the whole environment that it starts with (contract §5)."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.engines.kind import Variables
from llmgw_reconcile.model.desired import SecretRef
from llmgw_reconcile.model.launch import Placement

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

# What llmgw decides alone: set in `env:`, it would separate an engine from its record or from its GPUs.
RESERVED_VARIABLES = frozenset({"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"})
RESERVED_PREFIX = "LLMGW_"


class Account(NamedTuple):
    """The user that an engine runs as, in the words of the user database."""

    user: str
    home: str
    shell: str


def clean_environment(
    placement: Placement, planned: Variables, *, account: Account, tmp_dir: str
) -> tuple[tuple[str, str | SecretRef], ...]:
    """Everything an engine sees, sorted by name; nothing of the caller. `env:` of the file has the last word.

    Whoever starts the engine adds LLMGW_LAUNCH, which is new with each start.
    """
    variables: dict[str, str | SecretRef] = {
        "HOME": account.home,
        "USER": account.user,
        "LOGNAME": account.user,
        "SHELL": account.shell,
        "PATH": search_path(placement.executable),
        "LANG": "C.UTF-8",
        "TMPDIR": tmp_dir,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        # empty hides them all; UUIDs keep their meaning when a card is lost and the others are renumbered
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.uuid for gpu in placement.gpus if gpu.uuid),
        "LLMGW_ENGINE": placement.spec.engine,
        **planned,
        **placement.spec.model.env,
    }
    return tuple(sorted(variables.items(), key=lambda item: item[0]))


def search_path(executable: str) -> str:
    """PATH: the directory of the executable, so that it finds its own tools, then the system's.

    >>> search_path("/opt/vllm/bin/vllm")
    '/opt/vllm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
    """
    own = executable.rpartition("/")[0]
    return ":".join(dict.fromkeys((own, *SYSTEM_PATH) if own else SYSTEM_PATH))
