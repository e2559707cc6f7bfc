"""A running `llmgw agent run`, its events read as they come."""

from __future__ import annotations

import json
import signal
import subprocess
from threading import Thread
from typing import Any

from tests.fakes import procs
from tests.fakes.node import Node


class RunningAgent:
    """The process; `events` grows while it runs."""

    def __init__(self, node: Node, *arguments: Any) -> None:
        self.process: subprocess.Popen[str] = node.begin("agent", "run", *arguments, "-o", "json")
        self.events: list[dict[str, Any]] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def said(self, event: str, words: str = "") -> list[dict[str, Any]]:
        """The events of that kind whose message holds the words."""
        return [one for one in self.events if one["event"] == event and words in one["message"]]

    def await_event(self, event: str, words: str = "", *, count: int = 1, seconds: float = 15) -> dict[str, Any]:
        """Wait for so many of them; the newest."""
        procs.until(lambda: len(self.said(event, words)) >= count or self.process.poll() is not None, seconds, words)
        assert len(self.said(event, words)) >= count, self.events
        return self.said(event, words)[-1]

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code. It must have said nothing but events."""
        self.process.send_signal(number)
        code = self.process.wait(10)
        self._reader.join(5)
        assert self.process.stderr is not None
        assert self.process.stderr.read() == ""
        self._close()
        return code

    def kill(self) -> None:
        """End it without asking, if it still runs."""
        self.process.kill()
        self.process.wait(10)
        self._reader.join(5)
        self._close()

    def _close(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
