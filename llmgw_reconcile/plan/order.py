"""Turn the starts and replacements of a plan into steps: what needs each other's GPUs or port goes together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from llmgw_reconcile.model.observed import ObservedEngine
from llmgw_reconcile.plan.actions import Action, ActionKind


class Step(NamedTuple):
    """Actions that are carried out together: first all their stops, then all their starts."""

    actions: tuple[Action, ...]
    after: tuple[str, ...] = ()  # engines that stop for good, and until then hold what this step starts on

    @property
    def rolls(self) -> bool:
        """Whether it takes a running engine down: such steps wait for each other."""
        return any(action.kind is ActionKind.REPLACE for action in self.actions)


def start_steps(actions: Iterable[Action], running: Mapping[str, ObservedEngine]) -> tuple[Step, ...]:
    """Starts and replacements in the plan's order; those where one waits for what another one has now are one step."""
    stopping: list[str] = []
    groups: list[list[Action]] = []
    for action in actions:
        if action.kind is ActionKind.STOP:
            stopping.append(action.engine)
        if action.kind not in (ActionKind.START, ActionKind.REPLACE):
            continue
        related = [group for group in groups if any(_depend(action, other, running) for other in group)]
        groups = [group for group in groups if group not in related]
        groups.append([*(member for group in related for member in group), action])
    return tuple(Step(tuple(group), _held_by(group, stopping, running)) for group in groups)


def _held_by(
    group: Iterable[Action], stopping: Iterable[str], running: Mapping[str, ObservedEngine]
) -> tuple[str, ...]:
    return tuple(engine for engine in stopping if any(_needs(action, running.get(engine)) for action in group))


def _depend(one: Action, other: Action, running: Mapping[str, ObservedEngine]) -> bool:
    return _needs(one, running.get(other.engine)) or _needs(other, running.get(one.engine))


def _needs(action: Action, holder: ObservedEngine | None) -> bool:
    """Whether the action starts on a GPU or port that another engine has now: what has ended holds nothing."""
    if holder is None or holder.engine == action.engine:
        return False
    if holder.live is None and holder.supervisor is None and not holder.leftovers:
        return False
    return overlap(action.gpus, action.port, holder.gpus, holder.port)


def overlap(gpus: Iterable[str], port: int | None, other_gpus: Iterable[str], other_port: int | None) -> bool:
    """Whether two engines cannot live at the same time, since both have one of the GPUs or the port."""
    return not set(gpus).isdisjoint(other_gpus) or (port is not None and port == other_port)
