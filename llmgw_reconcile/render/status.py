"""What runs on a node to its JSON document (contract §6) and to a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmgw_reconcile.model.desired import NOTHING
from llmgw_reconcile.model.observed import ForeignProcess, ObservedEngine, ObservedState, Phase
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.model.spec import model_of
from llmgw_reconcile.render.diagnostics import diagnostics_text
from llmgw_reconcile.render.documents import FORMAT_VERSION
from llmgw_reconcile.render.terminal import Style, columns, painter, wrapped

UNKNOWN = "-"
_HEADINGS = ("ENGINE", "PHASE", "FOR", "PID", "PORT", "GPUS", "RESTARTS", "LAST EXIT")
_STYLES = {
    Phase.READY: Style.GOOD,
    Phase.FAILED: Style.BAD,
    Phase.DEGRADED: Style.CHANGE,
    Phase.BACKOFF: Style.CHANGE,
    Phase.ORPHANED: Style.CHANGE,
    Phase.HELD: Style.QUIET,
    Phase.STOPPED: Style.QUIET,
}


def status_document(node: str, observed: ObservedState, foreign: Sequence[ForeignProcess]) -> dict[str, Any]:
    """The engines that records of ours name, and the strangers in the way; unknown is null."""
    return {
        "format_version": FORMAT_VERSION,
        "node": node,
        "engines": [_engine(engine) for engine in observed.engines],
        "foreign": [process._asdict() for process in foreign],
    }


def _engine(engine: ObservedEngine) -> dict[str, Any]:
    document = {
        "engine": engine.engine,
        "model": model_of(engine.engine),
        "phase": str(engine.phase),
        "pid": engine.live.pid if engine.live else None,
        "port": engine.port,
        "gpus": list(engine.gpus),
        "served": list(engine.served),
        "since": engine.since,
        "restarts": engine.restarts,
        "last_exit": engine.last_exit._asdict(),
    }
    return document | ({"log_tail": list(engine.log_tail)} if engine.log_tail else {})


def status_text(
    node: str,
    observed: ObservedState,
    foreign: Sequence[ForeignProcess],
    *,
    now: float,
    gpu_indices: Mapping[str, int | str] = NOTHING,
    width: int | None = None,
    color: bool = False,
) -> str:
    """A table of the engines, then who else is in the way, then what is wrong.

    `now`: seconds since the epoch; `gpu_indices`: UUID -> what people call the card; `width` None: not wrapped.
    """
    parts = [_table(observed.engines, now, gpu_indices, width, color=color) or f"No engines on {neutralise(node)}.\n"]
    parts.append(_foreign(foreign, width))
    problems = (*observed.problems, *(problem for engine in observed.engines for problem in engine.problems))
    parts.append(diagnostics_text(tuple(dict.fromkeys(problems)), width=width, color=color))
    return "\n".join(filter(None, parts))


def _table(
    engines: Sequence[ObservedEngine], now: float, names: Mapping[str, int | str], width: int | None, *, color: bool
) -> str:
    if not engines:
        return ""
    paint = painter(color=color)
    heading, *lines = columns([_HEADINGS, *(_cells(engine, now, names) for engine in engines)])
    start = heading.index(_HEADINGS[1])
    text = [paint(heading, Style.STRONG)]
    for engine, line in zip(engines, lines, strict=True):
        end = start + len(engine.phase)
        text.append(line[:start] + paint(line[start:end], _STYLES.get(engine.phase, Style.PLAIN)) + line[end:])
        text += _notes(engine, width)
    return "".join(f"{line}\n" for line in text)


def _cells(engine: ObservedEngine, now: float, names: Mapping[str, int | str]) -> tuple[str, ...]:
    return (
        engine.engine,
        str(engine.phase),
        _elapsed(engine.since, now),
        str(engine.live.pid) if engine.live else UNKNOWN,
        str(engine.port) if engine.port is not None else UNKNOWN,
        _cards([names.get(uuid, uuid) for uuid in engine.gpus]) or UNKNOWN,
        str(engine.restarts),
        engine.last_exit.words or UNKNOWN,
    )


def _cards(names: Sequence[int | str]) -> str:
    """The names joined by commas, three or more indices in a row as the first and the last: eight need not be read.

    >>> _cards([0, 1, 2, 3, 6, 7, "GPU-5f3c"])
    '0-3,6,7,GPU-5f3c'
    """
    runs: list[list[int | str]] = []
    for name in names:
        if runs and isinstance(name, int) and runs[-1][-1] == name - 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def _notes(engine: ObservedEngine, width: int | None) -> Iterator[str]:
    """Below the row, so that a sentence does not widen the table."""
    if engine.detail:
        yield from wrapped(engine.detail, width=width, first="  ")
    if engine.last_exit.cause and engine.last_exit.cause != engine.detail:
        yield from wrapped(engine.last_exit.cause, width=width, first="  last exit: ")


def _foreign(foreign: Sequence[ForeignProcess], width: int | None) -> str:
    if not foreign:
        return ""
    rows = [
        (f"  pid {UNKNOWN if process.pid is None else process.pid}", process.user, process.command, process.holds)
        for process in foreign
    ]
    lines = wrapped("Held by processes that are not ours, and never signalled:", width=width)
    lines += columns([[neutralise(cell or UNKNOWN) for cell in row] for row in rows])
    return "".join(f"{line}\n" for line in lines)


def _elapsed(since: str | None, now: float) -> str:
    """How long ago that was, in the two largest units: `2d 3h`, `5m 12s`."""
    if since is None:
        return UNKNOWN
    from datetime import datetime  # a plan needs none

    try:
        seconds = max(0, int(now - datetime.fromisoformat(since).timestamp()))
    except ValueError:
        return UNKNOWN
    return duration_text(seconds)


def duration_text(seconds: float) -> str:
    """Seconds as people write them, in the two largest units; tenths only below ten seconds.

    >>> duration_text(0.25), duration_text(42), duration_text(725), duration_text(7500), duration_text(200_000)
    ('0.2s', '42s', '12m 5s', '2h 5m', '2d 7h')
    """
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f}s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    parts = [(days, "d"), (hour, "h"), (minute, "m"), (second, "s")]
    largest = next((index for index, (amount, _) in enumerate(parts) if amount), 3)
    return " ".join(f"{amount}{unit}" for amount, unit in parts[largest : largest + 2])
