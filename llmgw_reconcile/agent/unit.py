"""Write what starts llmgw with the node: systemd units, and a crontab line for those who have none."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

AGENT, BOOT = "llmgw-agent.service", "llmgw-boot.service"
USAGE_ERROR = 64  # a command line that is wrong stays wrong

_PLAIN = re.compile(r"[A-Za-z0-9_@=+,./:-]+")


class Service(NamedTuple):
    """What a unit is to run."""

    command: tuple[str, ...]  # the program by its absolute path
    is_agent: bool  # the resident loop; False: one apply of what was applied last
    user: str | None  # whose system unit; None: a unit of the user's own manager
    mounts: tuple[str, ...] = ()  # paths that must be there first

    @property
    def name(self) -> str:
        """The unit's name."""
        return AGENT if self.is_agent else BOOT


def unit_text(service: Service) -> str:
    """The whole unit file (systemd.unit(5), systemd.service(5), systemd.kill(5))."""
    sections = {"Unit": _unit(service), "Service": _service(service), "Install": _install(service)}
    return "\n".join("\n".join([f"[{name}]", *lines, ""]) for name, lines in sections.items())


def crontab_line(command: Sequence[str]) -> str:
    """A line of crontab(5): the shell reads it, and a percent sign would be a line break."""
    return "@reboot " + shlex.join(command).replace("%", r"\%")


def quoted(word: str) -> str:
    """One word of a command line of systemd's: no specifier, no variable, no second command.

    >>> quoted("/srv/a b/100%.yaml")
    '"/srv/a b/100%%.yaml"'
    """
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return word if _PLAIN.fullmatch(word) else f'"{word}"'


def _unit(service: Service) -> list[str]:
    does = "hold this node to its state file" if service.is_agent else "bring back what was applied last"
    lines = [f"Description=llmgw: {does}"]
    if service.user is not None:  # the manager of a user knows nothing of the system's units
        lines += [
            "Wants=network-online.target",
            "# The cards must be up: the driver's daemon, and the fabric of a node with NVSwitches.",
            "After=network-online.target nvidia-persistenced.service nvidia-fabricmanager.service",
            *([f"RequiresMountsFor={' '.join(map(quoted, service.mounts))}"] if service.mounts else []),
        ]
    if service.is_agent:
        lines += ["# It is started again for ever.", "StartLimitIntervalSec=0"]
    return lines


def _service(service: Service) -> list[str]:
    user = [f"User={service.user}"] if service.user is not None else []
    command = " ".join(map(quoted, service.command))
    kind = ["Type=exec"] if service.is_agent else ["Type=oneshot", "RemainAfterExit=yes"]
    again = ["ExecReload=/bin/kill -HUP $MAINPID", "Restart=always", "RestartSec=5"] if service.is_agent else []
    again += [f"RestartPreventExitStatus={USAGE_ERROR}"] if service.is_agent else []
    return [
        *kind,
        *user,
        f"ExecStart={command}",
        *again,
        "# Engines and their supervisors live in this unit's group, and outlive its end and its restart.",
        "KillMode=process",
        "Delegate=yes",
        "OOMPolicy=continue",
        "# What engines get: threads, descriptors, and memory that RDMA may pin.",
        "TasksMax=infinity",
        "LimitNOFILE=1048576",
        "LimitMEMLOCK=infinity",
    ]


def _install(service: Service) -> list[str]:
    return [f"WantedBy={'default.target' if service.user is None else 'multi-user.target'}"]
