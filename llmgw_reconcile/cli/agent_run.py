"""`llmgw agent run`: keep this node what a state file says, until it is told to end."""

from __future__ import annotations

import os

import click

from llmgw_reconcile.cli.agent_metrics import ListenOn, ListenOnType, serving_metrics
from llmgw_reconcile.cli.agent_source import Given, source_options
from llmgw_reconcile.cli.options import host_from, node_options, output_option
from llmgw_reconcile.cli.streams import write
from llmgw_reconcile.errors import NodeError


@click.command("run")
@source_options
@click.option("--metrics", type=ListenOnType(), metavar="[HOST:]PORT", help="Serve metrics to Prometheus there.")
@output_option("text", "json")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
@node_options
def command(
    state: str | None,
    interval: float,
    url: str | None,
    ref: str | None,
    path: str | None,
    verify_signatures: bool,  # noqa: FBT001 - click passes flags by name
    metrics: ListenOn | None,
    output: str,
    quiet: bool,  # noqa: FBT001
    state_dir: str | None,
    node: str | None,
) -> int:
    """Hold this node to a state file: apply it when it changes, when an engine ends, and at an interval.

    A state that is broken, missing or refused by a guard leaves the last good one in force. SIGHUP reconciles now;
    SIGTERM ends the loop, and engines serve on.

    \b
    Examples:
      llmgw agent run /etc/llmgw/node.yaml
      llmgw agent run --git https://git.example.org/llm.git --ref main --path nodes/gpu-07.yaml
    """
    from llmgw_reconcile.agent.attempts import Attempts
    from llmgw_reconcile.agent.bell import SignalBell
    from llmgw_reconcile.agent.choice import Choice
    from llmgw_reconcile.agent.engine_watch import EngineWatch
    from llmgw_reconcile.agent.liveness import Liveness
    from llmgw_reconcile.agent.log import AgentLog
    from llmgw_reconcile.agent.loop import Agent, Parts
    from llmgw_reconcile.agent.work import NodeWork
    from llmgw_reconcile.host.lock import take_lock

    given = Given(state, url, ref, path, verify_signatures, interval)
    given.check()
    host = host_from(state_dir, node)
    host.state_dir.create()
    lock = take_lock(os.path.join(host.state_dir.root, "locks", "agent"), purpose="llmgw agent run")
    log = AgentLog(lambda line: _say(line, output, quiet=quiet), as_json=output == "json")
    parts = Parts(
        source=given.source(host),
        engines=EngineWatch(host.state_dir),
        pulse=Liveness(host.state_dir, host.environ, host.clock),
        work=NodeWork(host),
        choice=Choice(Attempts(host.state_dir), log, host.clock),
        bell=SignalBell(host.clock),
        log=log,
        clock=host.clock,
    )
    with serving_metrics(host, metrics):
        Agent(parts, interval).run()
    lock.release()
    return 0


def _say(line: str, output: str, *, quiet: bool) -> None:
    """A line for people goes to standard error, an event to standard output; that nobody reads it ends nothing."""
    if quiet and output == "text":
        return
    try:
        write(f"{line}\n", err=output == "text")
    except NodeError:
        return
