"""Where the agent takes its state from, as a command line says it: a file, or a file of a repository."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from llmgw_reconcile.cli.options import Duration

if TYPE_CHECKING:
    from llmgw_reconcile.agent.source import Source
    from llmgw_reconcile.workflow.host import Host

Command = TypeVar("Command", bound=Callable[..., Any])

SHORTEST_INTERVAL = 1.0
DEFAULT_INTERVAL = 60.0


class Interval(Duration):
    """A duration that a loop can be run at."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; a usage error below one second."""
        seconds = super().convert(value, param, ctx)
        if seconds < SHORTEST_INTERVAL:
            self.fail("an interval of less than a second is no pause", param, ctx)
        return seconds


def source_options(command: Command) -> Command:
    """STATE, --git, --ref, --path, --verify-signatures and --interval."""
    for add in (
        click.option(
            "--verify-signatures", is_flag=True, help="Only commits or tags with a good signature; with --git."
        ),
        click.option("--path", metavar="FILE", help="The state file within the repository; with --git."),
        click.option("--ref", metavar="REF", help="Branch, tag or commit; with --git."),
        click.option("--git", "url", metavar="URL", help="Take the state file from this repository."),
        click.option("--interval", type=Interval(), default=DEFAULT_INTERVAL, metavar="D", help=_INTERVAL_HELP),
        click.argument("state", required=False),
    ):
        command = add(command)
    return command


_INTERVAL_HELP = "Look at least this often; 60s by default."


class Given(NamedTuple):
    """What the command line says."""

    state: str | None
    url: str | None
    ref: str | None
    path: str | None
    verify_signatures: bool
    interval: float

    @property
    def is_nothing(self) -> bool:
        """Whether it names no source at all."""
        return not (self.state or self.url or self.ref or self.path or self.verify_signatures)

    def check(self) -> None:
        """Raises a usage error when it does not say one thing, and RefusedError for a URL or reference that is none."""
        if self.url is None:
            if self.state in (None, "-") or self.ref or self.path or self.verify_signatures:
                raise click.UsageError("name a state file, or a repository with --git, --ref and --path")
            return
        if self.ref is None or self.path is None or self.state is not None:
            raise click.UsageError("--git goes with --ref and --path, and with no state file beside it")
        from llmgw_reconcile.agent.git import check_path, check_ref, check_url

        check_url(self.url)
        check_ref(self.ref)
        check_path(self.path)

    def source(self, host: Host) -> Source:
        """The source that was checked."""
        if self.url is None:
            from llmgw_reconcile.agent.source import FileSource

            assert self.state is not None
            return FileSource(self.state, host.state_dir, host.clock)
        from llmgw_reconcile.agent.git import Repository, repository_folder
        from llmgw_reconcile.agent.git_source import GitSource

        assert self.ref is not None
        assert self.path is not None
        return GitSource(
            Repository(repository_folder(host.state_dir), self.url, host.environ),
            self.ref,
            self.path,
            interval=self.interval,
            verify_signatures=self.verify_signatures,
            clock=host.clock,
        )

    @property
    def arguments(self) -> list[str]:
        """The same as arguments of `llmgw agent run`, from any folder."""
        words = [] if self.interval == DEFAULT_INTERVAL else ["--interval", f"{self.interval:g}"]
        if self.url is None:
            return [os.path.abspath(self.state or ""), *words]
        url = os.path.abspath(self.url) if os.path.isdir(self.url) else self.url
        words += ["--git", url, "--ref", self.ref or "", "--path", self.path or ""]
        return [*words, "--verify-signatures"] if self.verify_signatures else words
