"""`llmgw logs`: from the end and on, across restarts and cuts, and fit to be shown."""

from __future__ import annotations

import os
import select
import signal
from typing import IO

import pytest

from tests.fakes import procs
from tests.fakes.node import Node


class Lines:
    """The lines that a running command prints; none for ten seconds is a failure."""

    def __init__(self, stream: IO[str] | None) -> None:
        assert stream is not None
        self._stream, self._rest = stream, ""

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        while "\n" not in self._rest:
            assert select.select([self._stream], [], [], 10)[0], f"nothing more than {self._rest!r}"
            data = os.read(self._stream.fileno(), 1 << 16)
            assert data, f"it ended with {self._rest!r}"
            self._rest += data.decode()
        line, _, self._rest = self._rest.partition("\n")
        return line


def test_the_whole_log_and_its_last_lines(node: Node) -> None:
    node.apply(node.state(node.model()))
    whole = node.llmgw("logs", "chat").out.splitlines()
    assert whole[0].startswith("INFO: vllm stub, pid ")
    assert whole[-1] == "INFO: Application startup complete."
    assert node.llmgw("logs", "chat@0", "--tail", "1").out.splitlines() == whole[-1:]
    assert node.llmgw("logs", "chat", "--tail", "0").out == ""
    assert node.llmgw("logs", "chat", "--tail", "1000").out.splitlines() == whole


def test_the_log_of_the_run_before(node: Node) -> None:
    node.apply(node.state(node.model()))
    first = node.llmgw("logs", "chat").out
    node.llmgw("logs", "chat", "--previous", code=1)
    node.llmgw("restart", "chat")
    assert node.llmgw("logs", "chat", "--previous").out.startswith(first)
    assert node.llmgw("logs", "chat").out != first


def test_one_of_several_replicas_must_be_named(node: Node) -> None:
    node.apply(node.state(node.model(replicas=2)))
    assert "chat has several replicas: name one of chat@0, chat@1" in node.llmgw("logs", "chat", code=3).err
    assert "unknown engine: nobody" in node.llmgw("logs", "nobody", code=3).err
    node.llmgw("logs", "chat@1")


def test_following_goes_on_across_a_restart_and_loses_no_last_word(node: Node) -> None:
    node.apply(node.state(node.model()))
    lines = Lines(node.begin("logs", "chat", "-f", "--tail", "1").stdout)
    assert next(lines) == "INFO: Application startup complete."
    node.kill(node.engine()["pid"], signal.SIGTERM)  # it says goodbye, and is started again at once
    assert next(lines) == "INFO: Shutting down"
    assert next(lines).startswith("INFO: vllm stub, pid ")
    assert next(lines) == "INFO: Application startup complete."


def test_following_goes_on_across_a_cut(node: Node) -> None:
    node.apply(node.state(node.model(stub={"LISTEN_DELAY": 1.5, "LOG_BYTES": 60_000_000})), "--no-wait")
    lines = Lines(node.begin("logs", "chat", "-f").stdout)
    assert next(lines).startswith("INFO: vllm stub, pid ")
    assert "the newest line of the log" in lines


def test_secrets_and_escapes_are_not_shown(node: Node) -> None:
    key = node.root / "key"
    key.write_text("canary-7f3a9")
    key.chmod(0o600)
    node.env["TOKEN"] = "canary-0b1c2"
    stub = {"EXIT": "7@0.2", "LISTEN_DELAY": 60, "ERROR": "ValueError: canary-7f3a9 and canary-0b1c2"}
    chat = node.model(stub=stub, api_key={"file": str(key)}, env={"HF_TOKEN": {"env": "TOKEN"}})
    result = node.apply(node.state(chat), code=1)
    shown = [result.text, node.llmgw("logs", "chat").out, node.llmgw("status", "-o", "json").out]
    assert "ValueError: (secret) and (secret)" in shown[1]
    assert all("canary" not in text for text in shown)


def test_the_newest_line_that_apply_shows_is_masked(node: Node) -> None:
    node.env["TOKEN"] = "canary-0b1c2"
    stub = {"LISTEN_DELAY": 13, "LOG_EVERY": 0}
    chat = node.model(stub=stub, env={"HF_TOKEN": {"env": "TOKEN"}})
    lines = Lines(node.begin("apply", node.state(chat)).stderr)
    log = node.state_dir / "engines/chat@0/log/engine.log"
    procs.until(lambda: log.exists() and log.stat().st_size)
    with log.open("a") as file:
        file.write("token canary-0b1c2 is used\n")
    assert "token (secret) is used" in next(line for line in lines if "is used" in line)


@pytest.mark.parametrize("style", ["lines", "progress", "escapes"])
def test_the_end_of_a_long_log_is_quick_and_short(node: Node, style: str) -> None:
    node.apply(node.state(node.model(stub={"LOG_BYTES": 24 << 20, "LOG_STYLE": style, "LOG_LINE_BYTES": 200})))
    procs.until(lambda: "the newest line of the log" in node.llmgw("logs", "chat", "--tail", "2").out, 30)
    result = node.llmgw("logs", "chat", "--tail", "100")
    assert result.seconds < 2
    assert len(result.out) < 1_000_000
    assert "\x1b" not in result.out


def test_a_log_that_is_gone_is_an_error_and_a_link_is_not_followed(node: Node) -> None:
    node.apply(node.state(node.model()))
    log = node.state_dir / "engines/chat@0/log/engine.log"
    log.unlink()
    assert "cannot show the log of chat@0: there is none at" in node.llmgw("logs", "chat", code=1).err
    log.symlink_to("/etc/passwd")
    result = node.llmgw("logs", "chat", code=1)
    assert "root:" not in result.text
    log.unlink()
    assert node.engine()["phase"] == "ready"
