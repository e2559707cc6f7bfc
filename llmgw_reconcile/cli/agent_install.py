"""`llmgw agent install`: have the agent, or what was applied last, started with the node."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from llmgw_reconcile.cli.agent_metrics import ListenOn, ListenOnType
from llmgw_reconcile.cli.agent_source import Given, source_options
from llmgw_reconcile.cli.options import host_from, node_options
from llmgw_reconcile.cli.streams import write
from llmgw_reconcile.errors import RefusedError

if TYPE_CHECKING:
    from llmgw_reconcile.agent.unit import Service
    from llmgw_reconcile.workflow.host import Host


@click.command("install")
@source_options
@click.option("--metrics", type=ListenOnType(), metavar="[HOST:]PORT", help="As for `llmgw agent run`.")
@click.option("--print", "only_print", is_flag=True, help="Print the unit; install nothing.")
@click.option("--user", is_flag=True, help="A unit of your own account's systemd, without root.")
@click.option("--crontab", is_flag=True, help="Print a line for `crontab -e`, for a node without systemd.")
@node_options
def command(
    state: str | None,
    interval: float,
    url: str | None,
    ref: str | None,
    path: str | None,
    verify_signatures: bool,  # noqa: FBT001 - click passes flags by name
    metrics: ListenOn | None,
    only_print: bool,  # noqa: FBT001
    user: bool,  # noqa: FBT001
    crontab: bool,  # noqa: FBT001
    state_dir: str | None,
    node: str | None,
) -> int:
    """Install a systemd unit that runs the agent.

    Without a state file or repository: one that brings back at each boot what was applied last. An end or a restart
    of the unit leaves engines alone.

    \b
    Examples:
      llmgw agent install /etc/llmgw/node.yaml
      llmgw agent install --git https://git.example.org/llm.git --ref main --path nodes/gpu-07.yaml --print
      llmgw agent install --user
    """
    from llmgw_reconcile.agent.unit import crontab_line, unit_text

    given = Given(state, url, ref, path, verify_signatures, interval)
    if not given.is_nothing:
        given.check()
        _refuse_secrets(url)
    host = host_from(state_dir, node)
    service = _service(given, host, metrics, state_dir=state_dir, node=node, is_own=user)
    if crontab:
        write(crontab_line(service.command) + "\n")
        return 0
    if only_print:
        write(unit_text(service))
        return 0
    return _install(service, host)


def _service(
    given: Given, host: Host, metrics: ListenOn | None, *, state_dir: str | None, node: str | None, is_own: bool
) -> Service:
    from llmgw_reconcile.agent.unit import Service
    from llmgw_reconcile.workflow.host import own_account

    words = ["apply", "--last", "--no-wait"] if given.is_nothing else ["agent", "run", *given.arguments]
    words += ["--metrics", f"{metrics.host}:{metrics.port}"] if metrics and not given.is_nothing else []
    # A unit has neither this shell's environment nor its folder.
    words += ["--state-dir", host.state_dir.root] if state_dir or host.environ.get("LLMGW_STATE_DIR") else []
    words += ["--node", node] if node else []
    mounts = [host.state_dir.root, *([os.path.abspath(given.state)] if given.state else [])]
    account = own_account().user
    return Service((*_program(), *words), not given.is_nothing, None if is_own else account, tuple(mounts))


def _program() -> list[str]:
    """llmgw as it was installed, by its absolute path."""
    script = os.path.join(os.path.dirname(sys.executable), "llmgw")
    return [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "llmgw_reconcile"]


def _refuse_secrets(url: str | None) -> None:
    """A unit file is for everybody to read, and so is a command line."""
    from llmgw_reconcile.agent.git import holds_a_secret, shown_url

    if url is not None and holds_a_secret(url):
        raise RefusedError(
            f"cannot put a password where everybody can read it: name {shown_url(url)}, and give the password to a "
            "credential helper of git's (gitcredentials(7))"
        )


def _install(service: Service, host: Host) -> int:
    from llmgw_reconcile.agent.install import install_unit, starts_at_boot
    from llmgw_reconcile.workflow.host import own_account

    if service.user is not None and os.geteuid() != 0:
        raise RefusedError(
            "a unit of the system needs root: --user installs one of your own, --crontab prints a line for cron"
        )
    path = install_unit(service, host.environ)
    systemctl = "systemctl --user" if service.user is None else "systemctl"
    write(f"installed {path}\nstart it now: {systemctl} restart {service.name}\n")
    account = own_account().user
    if service.user is None and not starts_at_boot(account):
        cure = f"loginctl enable-linger {account}"
        write(f"warning: it runs only while {account} is logged in, until `{cure}` says otherwise\n", err=True)
    return 0
