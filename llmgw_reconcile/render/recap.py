"""What an apply did to words: failures first, with cause and log, then a recap of all engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import ActionKind
from llmgw_reconcile.render.status import duration_text
from llmgw_reconcile.render.terminal import Paint, Style, painter, wrapped

LOG_LINE_WIDTH = 400  # characters of one log line


class Outcome(NamedTuple):
    """How one action ended. `summary` says it in words (`ready`, `exit code 7`); secrets are masked in all texts."""

    engine: str
    action: ActionKind
    ok: bool
    summary: str
    seconds: float | None = None
    log_tail: tuple[str, ...] = ()
    cause: str = ""  # the root cause found in its log
    hint: str = ""
    tried: bool = True  # False: an interruption or an earlier failure came first

    @property
    def changed(self) -> bool:
        """Whether something was done on the node."""
        return self.ok and self.tried and self.action not in (ActionKind.KEEP, ActionKind.BLOCKED)

    @property
    def failed(self) -> bool:
        """Whether it was tried and did not work."""
        return self.tried and not self.ok and self.action is not ActionKind.BLOCKED


def recap_text(outcomes: Sequence[Outcome], *, width: int | None = None, color: bool = False) -> str:
    """Each failure with its cause and log, then who is done, failed, blocked and not tried, then the counts.

    `ok` counts every engine that is as it should be, `changed` those of them that something was done to.
    """
    paint = painter(color=color)
    failures = [_failure(outcome, width, paint) for outcome in outcomes if outcome.failed]
    groups = [
        ("done", Style.GOOD, [o for o in outcomes if o.changed]),
        ("failed", Style.BAD, [o for o in outcomes if o.failed]),
        ("blocked", Style.BAD, [o for o in outcomes if o.tried and o.action is ActionKind.BLOCKED]),
        ("not tried", Style.CHANGE, [o for o in outcomes if not o.tried]),
    ]
    lines = [line for name, style, group in groups if group for line in _group(name, style, group, width, paint)]
    lines.append(_counts(outcomes, paint))
    return "\n".join("".join(f"{line}\n" for line in part) for part in (*failures, lines))


def _failure(outcome: Outcome, width: int | None, paint: Paint) -> list[str]:
    took = "" if outcome.seconds is None else f" after {duration_text(outcome.seconds)}"
    head = f"failed: {outcome.engine}"
    first, *others = wrapped(f"{outcome.action}: {outcome.summary}{took}", width=width, first=f"{head}  ", below=2)
    lines = [paint(head, Style.BAD) + first[len(head) :], *others]
    lines += wrapped(outcome.cause, width=width, first="  cause: ") if outcome.cause else []
    lines += wrapped(outcome.hint, width=width, first="  hint: ") if outcome.hint else []
    if outcome.log_tail:
        room = LOG_LINE_WIDTH if width is None else width - 4
        lines.append("  last lines of its log:")
        lines += [f"  | {neutralise(line, room)}".rstrip() for line in outcome.log_tail]
    return lines


def _group(name: str, style: Style, group: Sequence[Outcome], width: int | None, paint: Paint) -> Iterator[str]:
    engines = ", ".join(f"{outcome.engine} ({_word(outcome)})" for outcome in group)
    first, *others = wrapped(engines, width=width, first=f"{name:<9}  ")
    yield paint(name, style) + first[len(name) :]
    yield from others


def _word(outcome: Outcome) -> str:
    if outcome.action is ActionKind.BLOCKED:
        return outcome.summary
    took = "" if outcome.seconds is None or not outcome.ok else f", {duration_text(outcome.seconds)}"
    return f"{outcome.action}: {outcome.summary}{took}"


def _counts(outcomes: Sequence[Outcome], paint: Paint) -> str:
    failed = sum(o.failed for o in outcomes)
    blocked = sum(o.tried and o.action is ActionKind.BLOCKED for o in outcomes)
    untried = sum(not o.tried for o in outcomes)
    good = f"ok={sum(o.ok and o.tried and o.action is not ActionKind.BLOCKED for o in outcomes)}"
    counts = [
        paint(good, Style.GOOD),
        paint(f"changed={sum(o.changed for o in outcomes)}", Style.CHANGE),
        paint(f"failed={failed}", Style.BAD if failed else Style.PLAIN),
        paint(f"blocked={blocked}", Style.BAD if blocked else Style.PLAIN),
    ]
    return " ".join([*counts, f"not_tried={untried}"] if untried else counts)
