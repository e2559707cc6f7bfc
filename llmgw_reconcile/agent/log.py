"""Say calmly what the agent does: a line with its time for people, or a JSON event a line; the same thing only once."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from llmgw_reconcile.host.clock import utc_now
from llmgw_reconcile.model.observed import Phase
from llmgw_reconcile.model.safe_text import neutralise
from llmgw_reconcile.plan.actions import Action, ActionKind
from llmgw_reconcile.render.status import duration_text
from llmgw_reconcile.workflow.report import Sighting

LINE_LIMIT = 1000  # characters of one line for people
ABOUT_ENGINES = ("left", "pulse")  # topics whose second word is an engine


class AgentLog:
    """Also the reporter of the applies that the agent makes. `write` takes one line and must not raise."""

    def __init__(self, write: Callable[[str], None], *, as_json: bool, now: Callable[[], str] = utc_now) -> None:
        self._write, self._as_json, self._now = write, as_json, now
        self._said: dict[tuple[str, ...], str] = {}
        self._phases: dict[str, Phase] = {}
        self.rolling: set[str] = set()  # engines whose replacement is under way

    def say(self, event: str, message: str, **fields: object) -> None:
        """One thing that happened."""
        if self._as_json:
            self._write(json.dumps({"event": event, "at": self._now(), "message": message, **fields}, allow_nan=False))
            return
        for line in message.splitlines():
            self._write(f"{self._now()} {neutralise(line, LINE_LIMIT)}")

    def say_once(self, topic: tuple[str, ...], event: str, message: str, **fields: object) -> None:
        """The same, unless it was the last thing said on that topic."""
        if self._said.get(topic) != message:
            self._said[topic] = message
            self.say(event, message, **fields)

    def settle(self, *topic: str) -> bool:
        """The topic is closed: should it come up again, it is said again. Whether it was open."""
        return self._said.pop(topic, None) is not None

    def topics(self, first: str) -> tuple[tuple[str, ...], ...]:
        """The open topics that begin with this word."""
        return tuple(topic for topic in self._said if topic[0] == first)

    def phase(self, engine: str, phase: Phase, detail: str) -> None:
        """How an engine stands; nothing is said where that is known."""
        if self._phases.get(engine) is phase:
            return
        self._phases[engine] = phase
        self.say("phase", f"{engine}: {phase}{f': {detail}' if detail else ''}", engine=engine, phase=str(phase))

    def know(self, engine: str, phase: Phase) -> None:
        """It stands so, and nobody needs to be told."""
        self._phases[engine] = phase

    def keep_only(self, engines: Collection[str]) -> None:
        """Forget engines that are no more."""
        self._phases = {engine: phase for engine, phase in self._phases.items() if engine in engines}
        for topic in [topic for topic in self._said if topic[0] in ABOUT_ENGINES and topic[1] not in engines]:
            del self._said[topic]

    # -- told by an apply

    def action_started(self, action: Action) -> None:
        """Say what begins, and why."""
        if action.kind is ActionKind.REPLACE:
            self.rolling.add(action.engine)
        message = f"{action.engine}: {action.kind}: {action.reason}"
        self.say("action_started", message, engine=action.engine, action=str(action.kind))

    def waiting(self, sighting: Sighting) -> None:
        """Say which phase it has reached; an end is told with its reason when the action is over."""
        if sighting.phase is Phase.READY or sighting.phase.has_ended:
            self.know(sighting.engine, sighting.phase)
        else:
            self.phase(sighting.engine, sighting.phase, sighting.detail)

    def comes_back(self, engine: str, why: str) -> None:
        """Say that a replacement was in vain."""
        message = f"{engine}: {why}; its previous launch is started again"
        self.say("phase", message, engine=engine, phase=str(Phase.FAILED))

    def action_finished(self, engine: str, kind: ActionKind, *, ok: bool, summary: str, seconds: float) -> None:
        """Say how it ended; that nobody waits for a start says nothing, its phases follow."""
        self.rolling.discard(engine)
        if ok and kind in (ActionKind.START, ActionKind.ADOPT) and summary != "ready" and not self._as_json:
            return
        words = summary if ok else f"failed: {summary}"
        message = f"{engine}: {words} ({duration_text(seconds)})"
        facts = {"engine": engine, "action": str(kind), "ok": ok, "seconds": round(seconds, 3)}
        self.say("action_finished", message, **facts)
