"""What a command that works on engines prints: for people a diff, progress and a recap, for programs events."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from llmgw_reconcile.cli.options import look_of
from llmgw_reconcile.cli.progress import JsonProgress, TextProgress
from llmgw_reconcile.cli.streams import write
from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.plan.actions import ActionKind, Plan
from llmgw_reconcile.render.plan_json import plan_document
from llmgw_reconcile.render.plan_text import plan_text
from llmgw_reconcile.render.recap import Outcome, recap_text


class Voice:
    """Documents go to standard output, progress to standard error; once work has begun, nothing said can end it."""

    def __init__(self, output: str, *, color: str, quiet: bool, verbose: bool) -> None:
        self._out = look_of(sys.stdout, color)
        self._quiet, self._verbose = quiet, verbose
        self._events = JsonProgress(lambda line: _try_to_write(f"{line}\n")) if output == "json" else None
        self.progress = self._events or TextProgress(self.say, width=look_of(sys.stderr, color).width)

    def say(self, line: str) -> None:
        """A line about the work."""
        if not self._quiet:
            _try_to_write(f"{line}\n", err=True)

    def show_plan(self, plan: Plan) -> None:
        """The diff, exactly as `plan` prints it. Raises NodeError when it cannot be shown: then nothing is done."""
        if self._events:
            self._events.event("plan", plan=plan_document(plan))
        elif not self._quiet or plan.has_errors:
            write(plan_text(plan, width=self._out.width, color=self._out.color, verbose=self._verbose))

    def show_recap(self, outcomes: Sequence[Outcome], digest: str) -> None:
        """How it ended; nothing more where nothing was to be done."""
        if self._events:
            ended = [outcome._asdict() | {"action": str(outcome.action)} for outcome in outcomes]
            self._events.event("summary", outcomes=ended, digest=digest)
            return
        worked = [one for one in outcomes if one.action is not ActionKind.KEEP or one.seconds is not None]
        if worked and (not self._quiet or any(not one.ok for one in worked)):
            _try_to_write("\n" + recap_text(outcomes, width=self._out.width, color=self._out.color))


def _try_to_write(text: str, *, err: bool = False) -> None:
    try:
        write(text, err=err)
    except NodeError:
        pass
