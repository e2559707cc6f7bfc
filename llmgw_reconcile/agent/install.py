"""Put a unit in place and tell systemd of it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llmgw_reconcile.agent.unit import Service, unit_text
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.files import write_atomic
from llmgw_reconcile.host.tool import finish_tools, start_tool

SYSTEM_FOLDER = "/etc/systemd/system"
LINGER_FOLDER = "/var/lib/systemd/linger"  # logind keeps a file here for each user whose manager starts at boot
SYSTEMCTL_SECONDS = 30.0


def install_unit(service: Service, environ: Mapping[str, str]) -> str:
    """Write the unit and enable it; its path. It is not started. Raises NodeError where systemd does not run."""
    _systemctl(service, "show", "--property=Version")
    folder = _folder(service, environ)
    path = os.path.join(folder, service.name)
    try:
        os.makedirs(folder, exist_ok=True)
        write_atomic(path, unit_text(service).encode())
        os.chmod(path, 0o644)  # there is no secret in it, and `systemctl cat` is for everybody
    except OSError as error:
        raise NodeError(f"cannot write {path}: {error.strerror}") from None
    _systemctl(service, "daemon-reload")
    _systemctl(service, "enable", service.name)
    return path


def starts_at_boot(user: str) -> bool:
    """Whether the user's own manager runs without a login (loginctl enable-linger)."""
    return os.path.exists(os.path.join(LINGER_FOLDER, user))


def _folder(service: Service, environ: Mapping[str, str]) -> str:
    if service.user is not None:
        return SYSTEM_FOLDER
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "systemd", "user")


def _systemctl(service: Service, *arguments: str) -> None:
    argv = ["systemctl", *(["--user"] if service.user is None else []), "--no-pager", *arguments]
    (answer,) = finish_tools([start_tool(argv, timeout=SYSTEMCTL_SECONDS)])
    if answer.returncode != 0:
        words = answer.problem or (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
        raise NodeError(
            f"cannot install {service.name}: systemctl: {words}; --print shows the unit, --crontab a line for cron"
        )
