"""Ask the engines that are about to start about themselves, once for each executable, before the plan is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmgw_reconcile.discovery.engine_version import Questions, ask, cache_folder, recall, remember
from llmgw_reconcile.plan.actions import ActionKind
from llmgw_reconcile.workflow.host import Host
from llmgw_reconcile.workflow.lookup import questions_for
from llmgw_reconcile.workflow.planning import Planned


def ask_engines(host: Host, planned: Planned, say: Callable[[str], None]) -> bool:
    """Ask what the cache does not know, and keep the answers; whether something was learnt, so that a new plan differs.

    At most a minute for all of them, side by side. An engine that does not answer stays unknown: no error.
    """
    folder = cache_folder(host.environ)
    unknown = {questions: env for questions, env in _starting(planned).items() if recall(folder, questions) is None}
    if not unknown:
        return False
    for questions in unknown:
        say(f"asking {questions.executable} for its version and flags, once")
    found = ask(tuple(unknown.items()))
    for questions, answers in zip(unknown, found, strict=True):
        remember(folder, questions, answers)
    return any(answers.version or answers.help for answers in found)


def _starting(planned: Planned) -> dict[Questions, Mapping[str, str]]:
    """Whom to ask, of the engines that are about to start -> the environment of the first of each, without secrets."""
    wanted = {want.spec.engine: want for want in planned.wanted}
    found: dict[Questions, Mapping[str, str]] = {}
    for action in planned.plan.actions:
        want = wanted.get(action.engine)
        if action.kind not in (ActionKind.START, ActionKind.REPLACE) or want is None:
            continue
        if want.placement is not None and want.launch is not None:
            questions = questions_for(want.spec.model.engine, want.placement.executable)
            found.setdefault(questions, {name: text for name, text in want.launch.env if isinstance(text, str)})
    return found
